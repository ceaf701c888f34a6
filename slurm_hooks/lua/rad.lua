-- RAD's side of job_submit.lua and cli_filter.lua. Lua 5.1 to 5.4.
--
-- A site's own job_submit.lua or cli_filter.lua gains one line, before its final `return`:
--     local ok, rad = pcall(require, "rad"); if ok then rad.wrap() end
-- The site's own functions run first and keep the last word on what they refuse.
--
-- Under slurmctld's locks: no file, no subprocess, one exchange with radd under one deadline. Every failure lets the
-- job through as its user wrote it.

local M = {
    socket = "/run/rad/radd.sock",
    deadline = 0.050,            -- seconds for the whole exchange
    breaker_failures = 3,        -- failures in a row that open the breaker
    breaker_seconds = 10,        -- how long it stays open: no job waits meanwhile
    longest_block = 786432,      -- bytes of the leading comment block that are read
    longest_request = 1000000,   -- bytes that radd is sent: less than its radd.max_request_kib
    longest_answer = 262144,
    longest_summary = 524288,    -- bytes of a summary file that cli_filter.lua hands on
    piece = 98304,               -- the kernel takes 128 KiB for one string of the environment
}

local INVALID_GRES = 2072        -- slurm.ERROR would show "Unspecified error"
local MAX_PIECES = 16
local HASH, NEWLINE = 35, 10
local MAX_STEPS = 10000          -- of a search in a script: 4 MB made for it must not hold slurmctld up

-- Fields of the job descriptor that radd is told of, and those that it may set.
local TOLD = {
    "user_name", "name", "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "min_nodes",
    "max_nodes", "num_tasks", "cpus_per_task", "min_cpus", "min_mem_per_node", "min_mem_per_cpu", "shared",
    "array_inx", "het_job_offset", "priority", "dependency", "begin_time", "reservation", "features", "req_nodes",
    "exc_nodes", "cpus_per_tres", "mem_per_tres", "ntasks_per_tres", "tres_bind", "tres_freq", "admin_comment",
}
local SETTABLE = {
    tres_per_node = true, tres_per_job = true, tres_per_task = true, features = true, req_nodes = true,
    admin_comment = true, cpus_per_tres = true, mem_per_tres = true, cpus_per_task = true, min_mem_per_node = true,
    tres_bind = true,
}
local NUMBERS = { cpus_per_task = true, min_mem_per_node = true }

local has_socket, socket, has_unix, unix

-- In slurmctld when its script is loaded, before any lock is held; sbatch, which asks nobody, does without.
local function load_sockets()
    if has_socket ~= nil then return end
    has_socket, socket = pcall(require, "socket")
    has_unix, unix = pcall(require, "socket.unix")
end

local failures, open_until = 0, 0

local function tell(text)
    if text ~= "" then slurm.log_user("%s", "rad: " .. text:gsub("\n", "\nrad: ")) end
end

-- The leading comment block: up to the first line that is neither blank nor a comment. nil if it is too long.
-- Lines that begin with # are passed over in C, so that a long block costs little.
local function leading_block(script, longest)
    local head = #script > longest and script:sub(1, longest) or script
    local position = 1
    for _ = 1, MAX_STEPS do
        local text = head:find("%S", position)
        if text == nil then return head == script and script or nil end
        local at_line_start = text == 1 or head:byte(text - 1) == NEWLINE
        if not (at_line_start and head:byte(text) == HASH) then return head:sub(1, position - 1) end
        local stop = head:find("\n[^#]", text)
        if stop == nil then return head == script and script or nil end
        position = stop + 1
    end
    return nil
end

-- Whether a line of `text` at or after `from` is a directive.
local function has_directive(text, from)
    local found = text:find("#RAD", from, true)
    for _ = 1, MAX_STEPS do
        if found == nil then return false end
        local after = text:sub(found + 4, found + 4)
        if (found == 1 or text:byte(found - 1) == NEWLINE) and after:match("^[ \t:=\r\n]?$") then return true end
        found = text:find("#RAD", found + 4, true)
    end
    return false
end

local function no_answer()
    error(string.format("no answer in %d ms", M.deadline * 1000), 0)
end

-- What radd is sent.
local function request_of(fields)
    local parts = {}
    for name, value in pairs(fields) do
        parts[#parts + 1] = name .. " " .. #value .. "\n" .. value .. "\n"
    end
    local body = table.concat(parts)
    return "RAD1 " .. #body .. "\n" .. body
end

-- One exchange with radd: a request in, fields out; nil and a reason if anything goes wrong.
local function exchange(request)
    local deadline = socket.gettime() + M.deadline
    local client = type(unix) == "table" and unix.stream() or unix()
    local function within_deadline()
        local rest = deadline - socket.gettime()
        if rest <= 0 then no_answer() end
        client:settimeout(rest, "t")
    end
    local function check(value, reason)
        if value == nil and reason == "timeout" then no_answer() end
        if value == nil then error(reason, 0) end
        return value
    end
    local function receive(what)
        within_deadline()
        return check(client:receive(what))
    end
    local ok, answer = pcall(function()
        within_deadline()
        check(client:connect(M.socket))
        within_deadline()
        check(client:send(request))
        local length = tonumber(receive("*l"):match("^RAD1 (%d+)$") or "")
        if length == nil or length > M.longest_answer then error("the answer is not one of radd's", 0) end
        local data, position, read = length > 0 and receive(length) or "", 1, {}
        while position <= #data do
            local _, stop, name, size = data:find("^([%w_.]+) (%d+)\n", position)
            size = tonumber(size)
            if stop == nil or data:byte(stop + size + 1) ~= NEWLINE then error("the answer is not one of radd's", 0) end
            read[name] = data:sub(stop + 1, stop + size)
            position = stop + size + 2
        end
        return read
    end)
    client:close()
    if ok then return answer end
    return nil, tostring(answer)
end

local function default_partition(part_list)
    for name, part in pairs(part_list or {}) do
        if part.flag_default == 1 then return name end
    end
    return ""
end

-- The summary that cli_filter.lua left in the job's environment, taken out of it again.
local function take_summary(job_desc, fields)
    local environment = job_desc.environment
    local head = environment and environment["RAD_SUMMARY"]
    if head == nil or head == "" then return end
    local count = tonumber(head:match("^ok (%d+)$") or "")
    if count == nil then
        fields.summary_error = head:gsub("^error ", "")
    elseif count <= MAX_PIECES then
        local pieces = {}
        for i = 1, count do
            pieces[i] = environment["RAD_SUMMARY_" .. i] or ""
            environment["RAD_SUMMARY_" .. i] = ""
        end
        fields.summary = table.concat(pieces)
    end
    environment["RAD_SUMMARY"] = ""
end

-- Set all of an answer's fields, or none of them.
local function apply(job_desc, answer)
    local old = {}
    local ok, reason = pcall(function()
        for key, value in pairs(answer) do
            local field = key:match("^set%.(.+)$")
            if field then
                if not SETTABLE[field] then error("radd may not set " .. field, 0) end
                if NUMBERS[field] then value = tonumber(value) end
                old[field] = job_desc[field] or ""
                job_desc[field] = value
                if (job_desc[field] or "") ~= value then error(field .. " cannot be set", 0) end
            end
        end
        for key, value in pairs(answer) do
            local name = key:match("^env%.(RAD_[A-Z_]+)$")
            if name and job_desc.environment then job_desc.environment[name] = value end
        end
    end)
    if ok then return true end
    for field, value in pairs(old) do pcall(function() job_desc[field] = value end) end
    return false, tostring(reason)
end

local function let_through(reason)
    slurm.log_info("%s", "rad: a job goes through as written: " .. reason)
    tell("RAD does not answer: the job goes through as written")
    return slurm.SUCCESS
end

local function failed(reason)
    failures = failures + 1
    if failures >= M.breaker_failures then
        failures, open_until = 0, socket.gettime() + M.breaker_seconds
        reason = reason .. string.format("; radd is not asked for %d s", M.breaker_seconds)
    end
    return let_through(reason)
end

local function submit(job_desc, part_list)
    local script = job_desc.script
    if script == nil or not script:find("#RAD", 1, true) then return slurm.SUCCESS end
    local block = leading_block(script, M.longest_block)
    if block == nil then
        tell(string.format("the leading comment block is longer than %d KiB or has over %d gaps: "
            .. "the job goes through as written", M.longest_block / 1024, MAX_STEPS))
        return slurm.SUCCESS
    end
    if not has_directive(block, 1) then
        if has_directive(script, #block + 1) then
            tell("#RAD lines after the first command have no effect: move them up, beside the #SBATCH lines")
        end
        return slurm.SUCCESS
    end
    load_sockets()
    if not (has_socket and has_unix) then return let_through("lua-socket is not installed") end
    if socket.gettime() < open_until then return let_through("radd did not answer before") end
    local fields = { script = block, partition = job_desc.partition or default_partition(part_list) }
    for _, name in ipairs(TOLD) do
        local value = job_desc[name]
        if type(value) == "number" then
            fields[name] = string.format("%.0f", value)
        elseif value ~= nil then
            fields[name] = tostring(value)
        end
    end
    take_summary(job_desc, fields)
    local request = request_of(fields)
    if #request > M.longest_request then
        tell(string.format("script, summary and options are longer than %d KB together: the job goes through as written",
            M.longest_request / 1000))
        return slurm.SUCCESS
    end
    local answer, reason = exchange(request)
    if answer == nil then return failed(reason) end
    if answer.status ~= "pass" and answer.status ~= "reject" then return failed("the answer is not one of radd's") end
    failures = 0
    if answer.status == "reject" then
        tell(answer.message or "")
        return INVALID_GRES
    end
    local ok, why = apply(job_desc, answer)
    if not ok then return let_through(why) end
    tell(answer.message or "")
    return slurm.SUCCESS
end

-- For job_submit.lua. Returns what slurm_job_submit is to return.
function M.submit(job_desc, part_list)
    local ok, result = pcall(submit, job_desc, part_list)
    if ok then return result end
    pcall(slurm.log_info, "%s", "rad: a job goes through as written: " .. tostring(result))
    return slurm.SUCCESS
end

----------------------------------------------------------------------------------------------------------------------
-- On the login node, as the user: read the summary that a directive names and hand it on in the job's environment.

-- The text of a regular file, or nil and what is wrong with it.
local function read_file(path, longest)
    -- The whole of "posix" would take longer to load than all else that RAD does here.
    local fcntl, stat, unistd = require("posix.fcntl"), require("posix.sys.stat"), require("posix.unistd")
    -- Without O_NONBLOCK the opening of a FIFO would wait for a writer.
    local fd, reason = fcntl.open(path, fcntl.O_RDONLY + fcntl.O_NONBLOCK)
    if fd == nil then return nil, "cannot be read: " .. tostring(reason):gsub("^.*: ", "") end
    -- lua-posix has no fstat on Debian 12; this is the file that was opened, whatever the path names by now.
    local status = stat.stat("/proc/self/fd/" .. fd)
    if status == nil or stat.S_ISREG(status.st_mode) == 0 then
        unistd.close(fd)
        return nil, "is not a regular file"
    end
    local parts, length = {}, 0
    while length <= longest do
        local data = unistd.read(fd, 65536)
        if data == nil or data == "" then break end
        parts[#parts + 1] = data
        length = length + #data
    end
    unistd.close(fd)
    if length > longest then return nil, string.format("is longer than %d KiB", longest / 1024) end
    return table.concat(parts)
end

-- The value of the model directive; nil where there is none or the summary stands in the script.
local function model_of(block)
    local model
    for line in (block .. "\n"):gmatch("(.-)\r?\n") do
        local text = line:match("^#RAD([ \t].*)$")
        if text then
            if text:match("^%s+summary%-begin") then return nil end
            local key = "%s[Mm][Oo][Dd][Ee][Ll]%s*[=:]%s*"
            model = model or text:match(key .. '"([^"]*)"') or text:match(key .. "'([^']*)'")
                or text:match(key .. "([^%s\"']%S*)")
        end
    end
    return model and (model:gsub(",$", ""))
end

local function setenv(name, value)
    require("posix.stdlib").setenv(name, value)
end

local function hand_on(options)
    local argv = options.argv
    local script_path = type(argv) == "table" and argv[1] or nil
    local script = script_path and read_file(script_path, 4 * 1024 * 1024)
    local block = script and leading_block(script, M.longest_block)
    local model = block and has_directive(block, 1) and model_of(block)
    if not model then return end
    local summary, reason = read_file(model, M.longest_summary)
    if summary and summary:find("\0", 1, true) then summary, reason = nil, "is not text" end
    if summary == nil then
        setenv("RAD_SUMMARY", "error " .. reason)
        return
    end
    local count = 0
    for from = 1, #summary, M.piece do
        count = count + 1
        setenv("RAD_SUMMARY_" .. count, summary:sub(from, from + M.piece - 1))
    end
    setenv("RAD_SUMMARY", "ok " .. count)
end

-- For cli_filter.lua. Never refuses: what is wrong is said at submit, by radd.
function M.pre_submit(options)
    if options.type ~= "sbatch" then return slurm.SUCCESS end
    pcall(function()
        -- A job that submits jobs must not pass its own on.
        local names = { "RAD_SUMMARY", "RAD_SHARE", "RAD_THREAD_PERCENTAGE" }
        for i = 1, MAX_PIECES do names[#names + 1] = "RAD_SUMMARY_" .. i end
        for _, name in ipairs(names) do
            if os.getenv(name) then setenv(name) end
        end
        hand_on(options)
    end)
    return slurm.SUCCESS
end

----------------------------------------------------------------------------------------------------------------------

-- Put RAD behind the functions that the site's script has defined. `settings` change the values at the top.
function M.wrap(settings)
    for name, value in pairs(settings or {}) do M[name] = value end
    local site_submit = slurm_job_submit
    if site_submit then
        load_sockets()
        slurm_job_submit = function(job_desc, part_list, submit_uid)
            local result = site_submit(job_desc, part_list, submit_uid)
            if result ~= nil and result ~= slurm.SUCCESS then return result end
            return M.submit(job_desc, part_list)
        end
    end
    local site_pre_submit = slurm_cli_pre_submit
    if site_pre_submit then
        slurm_cli_pre_submit = function(options, offset)
            local result = site_pre_submit(options, offset)
            if result ~= nil and result ~= slurm.SUCCESS then return result end
            return M.pre_submit(options)
        end
    end
end

return M
