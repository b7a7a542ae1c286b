"""Statements, their signatures and keys; tampering is detected."""

from __future__ import annotations

import base64
import json
import shutil
import stat
import subprocess
from dataclasses import replace

import pytest

from gpuemu_lsp.engine.attest.envelope import EnvelopeError, key_id, seal, unseal
from gpuemu_lsp.engine.attest.keys import KeyFileError, default_key, public_path, signing_key, trusted_key
from gpuemu_lsp.engine.attest.statement import Evidence, NotSignableError, result_of, statement
from gpuemu_lsp.engine.check.model import CaseCount, DtypeMeasurements, KernelReport
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.request import CheckOptions

GOOD = KernelReport(
    "k", "/p/k.cu", "passed", True, cases=CaseCount(8, 8), measured=(DtypeMeasurements("float32", errors=(0.5,)),)
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def evidence(*kernels: KernelReport, findings=(), registered=("k",), **more) -> Evidence:
    return Evidence(Run("/p", kernels, tuple(findings)), CheckOptions(), "42", {"/p/k.cu": "00"}, registered, **more)


def finding(rule: str):
    return make(rule, "m", Place("/p/k.cu", Range.of(0, 0, 0, 1)), kernel="k")


@pytest.mark.parametrize(
    ("made", "result"),
    [
        (evidence(GOOD), "PASSED"),
        (evidence(GOOD, findings=[finding("reference/low-precision")]), "WARNED"),
        (evidence(replace(GOOD, status="unreferenced")), "WARNED"),
        (evidence(replace(GOOD, status="failed"), findings=[finding("numeric/nan")]), "FAILED"),
        (evidence(replace(GOOD, status="error", compiled=False)), "FAILED"),
        (evidence(GOOD, findings=[finding("artifact/registers")]), "FAILED"),
        (evidence(GOOD, KernelReport("u", "/p/u.cu", "not-executed", True, registered=False)), "PASSED"),
    ],
)
def test_result(made, result):
    assert result_of(made) == result


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (evidence(registered=()), "no kernel"),
        (evidence(), "does not include k"),
        (evidence(GOOD, registered=("k", "other")), "does not include other"),
        (evidence(replace(GOOD, status="not-executed")), "k did not run"),
        (evidence(replace(GOOD, cases=CaseCount())), "k did not run"),
        (evidence(GOOD, broken=("#2",)), "errors in #2"),
        (evidence(replace(GOOD, registered=False)), "does not include k"),
    ],
)
def test_an_empty_or_partial_run_is_not_signed(made, why):
    with pytest.raises(NotSignableError, match=why):
        statement(made, "r.json", b"")


def test_a_signed_statement_round_trips(home):
    key, file, made = signing_key(None)
    assert made and file == default_key()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again, _, made = signing_key(None)
    assert not made
    made = statement(evidence(GOOD), "r.json", b"report")
    assert unseal(seal(made, again), trusted_key(None)) == made
    assert key_id(key.public_key()) == key_id(trusted_key(public_path(file)))


def test_tampering_is_detected(home):
    key, _, _ = signing_key(None)
    public = trusted_key(None)
    text = seal(statement(evidence(replace(GOOD, status="failed")), "r.json", b"report"), key)
    envelope = json.loads(text)
    payload = base64.b64decode(envelope["payload"])
    forged = {**envelope, "payload": base64.b64encode(payload.replace(b"FAILED", b"PASSED")).decode()}
    for bad in (forged, {**envelope, "payloadType": "text/plain"}, {**envelope, "signatures": []}, {}, []):
        with pytest.raises(EnvelopeError):
            unseal(json.dumps(bad), public)
    with pytest.raises(EnvelopeError):
        unseal("no json", public)


def test_another_key_is_not_trusted(home, monkeypatch):
    text = seal({}, signing_key(None)[0])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "other user"))
    signing_key(None)
    with pytest.raises(EnvelopeError, match="no valid signature"):
        unseal(text, trusted_key(None))


def test_unusable_keys_are_rejected(home):
    with pytest.raises(KeyFileError, match="--key"):
        trusted_key(None)
    with pytest.raises(KeyFileError, match="does not exist"):
        signing_key(home / "none.pem")
    _, file, _ = signing_key(None)
    file.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        signing_key(None)
    (home / "bad.pem").write_text("no key")
    (home / "bad.pem").chmod(0o600)
    with pytest.raises(KeyFileError):
        signing_key(home / "bad.pem")
    with pytest.raises(KeyFileError):
        trusted_key(home / "bad.pem")


def test_openssl_verifies_the_signature(home):
    """Verify the pre-authentication encoding (DSSE v1) with an independent implementation."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, file, _ = signing_key(None)
    envelope = json.loads(seal(statement(evidence(GOOD), "r.json", b"report"), key))
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    (home / "signed").write_bytes(b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload))
    (home / "signature").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(public_path(file)), "-rawin"]
    command += ["-in", str(home / "signed"), "-sigfile", str(home / "signature")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    (home / "signed").write_bytes(b"something else")
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
