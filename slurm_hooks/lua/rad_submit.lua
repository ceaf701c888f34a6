-- For job_submit.lua, in slurmctld: asks radd what becomes of a job, and does that.
--
-- Under slurmctld's locks: no file, no subprocess, one exchange with radd under one deadline. Every failure lets the
-- job through as its user wrote it.

local rad, script_text = require("rad"), require("rad_script")

local INVALID_GRES = 2072        -- slurm.ERROR would show "Unspecified error"
local NEWLINE = 10
-- Slurm's words for no limit, and for numbers that nobody has set.
local INFINITE, UNSET, UNSET_16 = 4294967295, 4294967294, { [65534] = true, [65535] = true }

-- Fields of the job descriptor that radd is told of where they are set, and those that it may set.
local TOLD = {
    "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "min_nodes", "max_nodes", "num_tasks",
    "cpus_per_task", "min_cpus", "pn_min_cpus", "min_mem_per_node", "min_mem_per_cpu", "shared", "array_inx",
    "het_job_offset", "priority", "dependency", "begin_time", "reservation", "licenses", "features", "req_nodes",
    "exc_nodes", "cpus_per_tres", "mem_per_tres", "ntasks_per_tres", "tres_bind", "tres_freq", "time_limit",
    "admin_comment", "pn_min_tmp_disk", "sockets_per_node", "cores_per_socket", "threads_per_core", "ntasks_per_core",
    "ntasks_per_socket", "burst_buffer", "prefer",
}
local SETTABLE = {
    tres_per_node = true, tres_per_job = true, tres_per_task = true, features = true, req_nodes = true,
    admin_comment = true, cpus_per_tres = true, mem_per_tres = true, cpus_per_task = true, min_mem_per_node = true,
    tres_bind = true, min_cpus = true, prefer = true,
}
local NUMBERS = { cpus_per_task = true, min_mem_per_node = true, min_cpus = true }

local has_socket, socket = pcall(require, "socket")
local has_unix, unix = pcall(require, "socket.unix")

-- Unix time at which slurmctld began, where /proc tells it. It takes this file anew whenever job_submit.lua is written.
local function began()
    local stat, uptime = io.open("/proc/self/stat"), io.open("/proc/uptime")
    local fields = stat and (stat:read("*l") or ""):match(".*%) (.*)") or ""
    local up = uptime and tonumber((uptime:read("*l") or ""):match("^%S+"))
    if stat then stat:close() end
    if uptime then uptime:close() end
    local ticks = tonumber(fields:match("^" .. ("%S+ "):rep(19) .. "(%d+)"))
    return has_socket and ticks and up and string.format("%.0f", math.ceil(socket.gettime() - up + ticks / 100)) or nil
end

local read, since = pcall(began)
if not read then since = nil end

local NAMES_S = 600              -- how long users' names are remembered

local failures, open_until = 0, 0
local names, names_until = {}, 0 -- of users, by number
local kept                       -- the connection, from one job to the next

local function tell(text)
    if text ~= "" then slurm.log_user("%s", "rad: " .. text:gsub("\n", "\nrad: ")) end
end

local function no_answer()
    error(string.format("no answer in %d ms", rad.deadline * 1000), 0)
end

-- Whether a moment, set `span` seconds ahead, has not come yet; not so where the clock was set back since.
local function awaits(moment, span)
    local rest = moment - socket.gettime()
    return rest > 0 and rest <= span
end

-- The fields of an answer.
local function fields_of(data)
    local position, read = 1, {}
    while position <= #data do
        local _, stop, name, size = data:find("^([%w_.]+) (%d+)\n", position)
        size = tonumber(size)
        if stop == nil or data:byte(stop + size + 1) ~= NEWLINE then error("the answer is not one of radd's", 0) end
        read[name] = data:sub(stop + 1, stop + size)
        position = stop + size + 2
    end
    return read
end

-- One exchange with radd: a request in, fields out; nil and a reason if anything goes wrong.
local function exchange(request, deadline)
    local reused, client = kept ~= nil, kept
    kept = nil -- until the answer is whole: nobody is to read the rest of another's
    local function within_deadline()
        local rest = deadline - socket.gettime()
        if rest <= 0 then no_answer() end
        client:settimeout(math.min(rest, rad.deadline), "t") -- the clock may be set back meanwhile
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
        if not reused then
            client = check((type(unix) == "table" and unix.stream or unix)())
            within_deadline()
            check(client:connect(rad.socket))
        end
        within_deadline()
        check(client:send(request))
        local length = tonumber(receive("*l"):match("^RAD1 (%d+)$") or "")
        if length == nil or length > rad.longest_answer then error("the answer is not one of radd's", 0) end
        return fields_of(length > 0 and receive(length) or "")
    end)
    if ok then
        kept = client
        return answer
    end
    if client then client:close() end
    -- radd was started anew, or has closed what was idle for long.
    if reused and answer == "closed" then return exchange(request, deadline) end
    return nil, tostring(answer)
end

local function default_partition(part_list)
    for name, part in pairs(part_list or {}) do
        if part.flag_default == 1 then return name end
    end
    return ""
end

-- The summary that cli_filter.lua left in the job's environment, taken out of it again: its text, or why there is none.
local function take_summary(job_desc)
    local environment = job_desc.environment
    local head = environment and environment["RAD_SUMMARY"]
    if head == nil or head == "" then return nil end
    environment["RAD_SUMMARY"] = ""
    local count = tonumber(head:match("^ok (%d+)$") or "")
    if count == nil then return nil, (head:gsub("^error ", "")) end
    if count > rad.max_pieces then return nil end
    local pieces = {}
    for i = 1, count do
        pieces[i] = environment["RAD_SUMMARY_" .. i] or ""
        environment["RAD_SUMMARY_" .. i] = ""
    end
    return table.concat(pieces)
end

-- The name of a job's user. slurmctld asks the system for it at each look, which may take longer than all else here.
-- Those whom nobody knows are nobody to Slurm, and are not to pass for each other.
local function user_of(job_desc)
    local number = job_desc.user_id
    if not awaits(names_until, NAMES_S) then names, names_until = {}, socket.gettime() + NAMES_S end
    local name, digits = names[number] or job_desc.user_name, string.format("%.0f", number)
    if name == nil or name == "nobody" then return digits end
    if name ~= digits then names[number] = name end -- else the next time somebody may know it
    return name
end

-- What radd is sent of a job: also its summary, or why there is none. nil where its options are too long.
local function request_of(job_desc, part_list, text, summary, reason)
    local parts = {}
    local function add(name, value)
        parts[#parts + 1] = name .. " " .. #value .. "\n" .. value .. "\n"
    end
    add("partition", job_desc.partition or default_partition(part_list))
    add("user_name", user_of(job_desc))
    if since then add("slurmctld_since", since) end
    for _, name in ipairs(TOLD) do
        local value = job_desc[name]
        if type(value) == "number" then
            if value < UNSET and not UNSET_16[value] then add(name, string.format("%.0f", value)) end
            if value == INFINITE and name == "time_limit" then add(name, "unlimited") end
        elseif value ~= nil and value ~= "" then
            add(name, tostring(value))
        end
    end
    local flags, spread = job_desc.bitflags, slurm.SPREAD_JOB
    if type(flags) == "number" and spread and math.floor(flags / spread) % 2 == 1 then add("spread_job", "1") end
    local environment = job_desc.environment or {}
    if environment["RAD_TEST_ONLY"] == "1" then add("test_only", "1") end
    if environment["RAD_CORE_SPEC"] == "1" then add("core_spec", "1") end
    parts = { table.concat(parts) }
    if #parts[1] > rad.longest_options then return nil end
    add("script", text)
    if summary then add("summary", summary) end
    if reason then add("summary_error", reason) end
    local body = table.concat(parts)
    return "RAD1 " .. #body .. "\n" .. body
end

-- Set all of an answer's fields, or none of them.
local function apply(job_desc, answer)
    local old = {}
    local ok, reason = pcall(function()
        for key in pairs(answer) do -- first: a number that was not set cannot be taken back
            local field = key:match("^set%.(.+)$")
            if field and not SETTABLE[field] then error("radd may not set " .. field, 0) end
        end
        for key, value in pairs(answer) do
            local field = key:match("^set%.(.+)$")
            if field then
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
    if failures >= rad.breaker_failures then
        failures, open_until = 0, socket.gettime() + rad.breaker_seconds
        reason = reason .. string.format("; radd is not asked for %d s", rad.breaker_seconds)
    end
    return let_through(reason)
end

local function decide(job_desc, part_list)
    local script = job_desc.script
    if script == nil or not script:find("#RAD", 1, true) then return slurm.SUCCESS end
    local found = script_text.directive(script)
    if found == nil then return slurm.SUCCESS end
    local before = script_text.leading_block(script:sub(1, found - 1))
    if before and #before < found - 1 then
        local another = script:find("\n#!", #before, true) -- a script within this one, which these lines are for
        if another == nil or another > found then
            tell("#RAD lines after the first command have no effect: move them up, beside the #SBATCH lines")
        end
        return slurm.SUCCESS
    end
    local text = before and (#script <= rad.longest_whole and script or script_text.leading_block(script))
    if not text then
        tell(string.format("the leading comment block is longer than %d KiB or has over %d gaps: "
            .. "the job goes through as written", rad.longest_block / 1024, script_text.max_steps))
        return slurm.SUCCESS
    end
    local summary, why_none = take_summary(job_desc) -- whatever comes: Slurm would keep it with the job
    if not (has_socket and has_unix) then return let_through("lua-socket is not installed") end
    if awaits(open_until, rad.breaker_seconds) then return let_through("radd did not answer before") end
    local request = request_of(job_desc, part_list, text, summary, why_none)
    if not request then
        tell(string.format("the options are longer than %d KiB together: the job goes through as written",
            rad.longest_options / 1024))
        return slurm.SUCCESS
    end
    if #request > rad.longest_request then
        tell(string.format("script, summary and options are longer than %d KB together: the job goes through as written",
            rad.longest_request / 1000))
        return slurm.SUCCESS
    end
    local answer, reason = exchange(request, socket.gettime() + rad.deadline)
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

-- What slurm_job_submit is to return.
return function(job_desc, part_list)
    local ok, result = pcall(decide, job_desc, part_list)
    if ok then return result end
    pcall(slurm.log_info, "%s", "rad: a job goes through as written: " .. tostring(result))
    return slurm.SUCCESS
end
