-- A client of the debug adapter protocol with the functions of nvim-dap that our plugin and the scenario call. No package
-- registry has nvim-dap; where a checkout of it is at hand ($GPUEMU_NVIM_DAP), the scenario runs with that one.

local M = { adapters = {}, listeners = { after = { event_stopped = {} } } }

local active
local breakpoints = {}

local Session = {}
Session.__index = Session

function Session:send(message)
  self.last = self.last + 1
  message.seq = self.last
  local body = vim.json.encode(message)
  self.write(("Content-Length: %d\r\n\r\n%s"):format(#body, body))
  return self.last
end

--- Send a request; the callback receives an error with a message, or nil, and the body.
function Session:request(command, arguments, callback)
  local number = self:send({ type = "request", command = command, arguments = arguments or vim.empty_dict() })
  self.callbacks[number] = callback or function() end
end

function Session:receive(data)
  self.pending = self.pending .. data
  while true do
    local _, last, length = self.pending:find("^Content%-Length: (%d+)\r\n\r\n")
    if not last or #self.pending < last + tonumber(length) then
      return
    end
    local body = self.pending:sub(last + 1, last + tonumber(length))
    self.pending = self.pending:sub(last + tonumber(length) + 1)
    local message = vim.json.decode(body, { luanil = { object = true } })
    vim.schedule(function() self:handle(message) end)
  end
end

function Session:handle(message)
  if message.type == "response" then
    local failure = not message.success and { message = message.message } or nil
    self.callbacks[message.request_seq](failure, message.body)
  elseif message.event == "initialized" then
    self:set_breakpoints(function() self:request("configurationDone") end)
  elseif message.event == "stopped" then
    self.stopped = message.body
    self.current_frame = nil
    self:request("stackTrace", { threadId = message.body.threadId }, function(_, body)
      self.current_frame = body.stackFrames[1]
      for _, listener in pairs(M.listeners.after.event_stopped) do
        listener(self, message.body)
      end
    end)
  elseif message.event == "terminated" then
    self.close()
    active = nil
  end
end

function Session:set_breakpoints(done)
  local arguments = { source = { path = vim.api.nvim_buf_get_name(0) }, breakpoints = breakpoints }
  self:request("setBreakpoints", arguments, done)
end

local function connected(adapter, session)
  local function read(_, data)
    if data then
      session:receive(data)
    end
  end
  if adapter.type == "pipe" then
    local pipe = assert(vim.uv.new_pipe())
    pipe:connect(adapter.pipe, function(failure)
      assert(not failure, failure)
      pipe:read_start(read)
    end)
    session.write = function(text) pipe:write(text) end
    session.close = function() pipe:close() end
  else
    local process = vim.system({ adapter.command, unpack(adapter.args) }, { stdin = true, stdout = read })
    session.write = function(text) process:write(text) end
    session.close = function() process:kill("sigterm") end
  end
end

function M.run(configuration)
  local adapter = M.adapters[configuration.type]
  local function start(chosen)
    active = setmetatable({ last = 0, pending = "", callbacks = {}, adapter = chosen }, Session)
    connected(chosen, active)
    local capabilities = { adapterID = "gpuemu", linesStartAt1 = true, columnsStartAt1 = true }
    active:request("initialize", capabilities, function() active:request("launch", configuration) end)
  end
  if type(adapter) == "function" then
    adapter(start, configuration)
  else
    start(adapter)
  end
end

function M.session() return active end

--- Set a breakpoint with a condition at the cursor.
function M.set_breakpoint(condition)
  breakpoints = { { line = vim.api.nvim_win_get_cursor(0)[1], condition = condition } }
  active:set_breakpoints()
end

function M.clear_breakpoints()
  breakpoints = {}
  active:set_breakpoints()
end

local function mover(command)
  return function() active:request(command, { threadId = active.stopped.threadId }) end
end

M.step_back, M.step_over = mover("stepBack"), mover("next")
M.continue, M.reverse_continue = mover("continue"), mover("reverseContinue")

function M.terminate() active:request("terminate") end

return M
