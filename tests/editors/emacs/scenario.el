;;; scenario.el --- eglot with the server, as the documentation sets it up  -*- lexical-binding: t -*-

;; Loaded by `emacs --batch -Q'; exits with code 1 if an assertion fails.

(require 'cl-lib)
(require 'json)
(setq eglot-sync-connect 30
      eglot-autoshutdown nil
      make-backup-files nil)
(load (getenv "GPUEMU_TEST_SETUP") nil t)
(require 'eglot)

(defvar scenario-facts (json-parse-string (getenv "GPUEMU_TEST_FACTS") :object-type 'alist))

(defun scenario-fact (name) (alist-get name scenario-facts))

(defun scenario-wait (what condition)
  "Poll CONDITION until it returns non-nil; WHAT describes it in the error message."
  (let ((deadline (+ (float-time) 90)) value)
    (while (not (setq value (funcall condition)))
      (when (> (float-time) deadline)
        (error "timeout waiting for %s; diagnostics: %S" what (mapcar #'flymake-diagnostic-text (flymake-diagnostics))))
      (flymake-start nil)  ; the timers that would do it do not run in batch
      (accept-process-output nil 0.05))
    value))

(defun scenario-errors ()
  (cl-remove-if-not (lambda (found) (eq (flymake-diagnostic-type found) 'eglot-error)) (flymake-diagnostics)))

(defun scenario-idle ()
  (jsonrpc-request (eglot-current-server) :gpuemu/waitForIdle (make-hash-table) :timeout 90))

(find-file (scenario-fact 'file))
(cl-assert (eq major-mode 'cuda-mode) t)
(call-interactively #'eglot)
(scenario-wait "eglot" #'eglot-managed-p)  ; a busy machine starts a server later than eglot waits

;; The finding is on the line with the expect: comment.
(scenario-wait "a diagnostic" #'scenario-errors)
(let ((found (car (scenario-errors))))
  (cl-assert (= (line-number-at-pos (flymake-diagnostic-beg found)) (1+ (scenario-fact 'bug_line))) t)
  (cl-assert (string-match-p "NaN" (flymake-diagnostic-text found)) t))
(scenario-idle)

;; Hover on the kernel's name.
(goto-char (point-min))
(search-forward "row_softmax")
(backward-char)
(let* ((answer (jsonrpc-request (eglot-current-server) :textDocument/hover (eglot--TextDocumentPositionParams)))
       (text (plist-get (plist-get answer :contents) :value)))
  (cl-assert (string-match-p "registers" text) t))

;; A quick fix, selected as by a user: the finding is ignored on its line.
(defun scenario-save (text)
  (erase-buffer)
  (insert text)
  (eglot--signal-textDocument/didChange)  ; its idle timer does not run in batch
  (save-buffer)
  (scenario-idle))

(let ((buggy (buffer-string))
      (found (car (scenario-errors))))
  (goto-char (flymake-diagnostic-beg found))
  (cl-letf ((last-nonmenu-event ?x)  ; chosen by the keyboard, not by a mouse
            ((symbol-function 'completing-read)
             (lambda (_prompt collection &rest _)
               (or (cl-find-if (lambda (title) (string-prefix-p "Ignore numeric/nan" title))
                               (all-completions "" collection))
                   (error "no such quick fix: %S" (all-completions "" collection))))))
    (call-interactively #'eglot-code-actions))
  (cl-assert (string-match-p "gpuemu: ignore\\[numeric/nan\\]" (buffer-string)) t)
  (scenario-save (buffer-string))
  (scenario-wait "the ignored diagnostic to go" (lambda () (null (scenario-errors))))
  (scenario-save buggy)
  (scenario-wait "the diagnostic to come back" #'scenario-errors))

;; Fixed and saved: clean.
(scenario-save (scenario-fact 'fixed))
(scenario-wait "the diagnostic to go" (lambda () (null (scenario-errors))))

(eglot-shutdown (eglot-current-server))
(princ "scenario passed\n")
;;; scenario.el ends here
