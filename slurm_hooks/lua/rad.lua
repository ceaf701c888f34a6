-- RAD's side of job_submit.lua and cli_filter.lua. Lua 5.1 to 5.4.
--
-- A site's own job_submit.lua or cli_filter.lua gains one line, before its final `return`:
--     local ok, rad = pcall(require, "rad"); if ok then rad.wrap() end
-- The site's own functions run first and keep the last word on what they refuse.
--
-- Every sbatch loads this file: it holds what a job without a named summary needs. rad_submit.lua is slurmctld's,
-- rad_step.lua srun's, rad_script.lua reads scripts, rad_summary.lua the summary that one of them names.

local M = {
    socket = "/run/rad/radd.sock",
    deadline = 0.050,            -- seconds for the whole exchange
    breaker_failures = 3,        -- failures in a row that open the breaker
    breaker_seconds = 10,        -- how long it stays open: no job waits meanwhile
    longest_block = 786432,      -- bytes of the leading comment block that are read
    longest_whole = 65536,       -- bytes of a script that radd is sent as it is: to find its block's end takes longer
    longest_request = 1000000,   -- bytes that radd is sent: less than its radd.max_request_kib
    longest_options = 131072,    -- bytes of them beside script and summary: an answer may repeat these, and is bounded
    longest_answer = 262144,
    longest_summary = 524288,    -- bytes of a summary file that cli_filter.lua hands on
    piece = 98304,               -- the kernel takes 128 KiB for one string of the environment
    max_pieces = 16,
    -- What a job that submits jobs must not pass on; steps of an allocation within it would take it for theirs.
    inherited = { "RAD_SUMMARY", "RAD_SHARE", "RAD_THREAD_PERCENTAGE", "RAD_SUMMARY_1", "RAD_TEST_ONLY", "RAD_CORE_SPEC" },
}

local WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"

local told = false               -- of a job with several parts this is called for each

-- As much of the script as its leading comment block can take, or nil where it is no regular file. Without lua-posix
-- where that works: loading it takes longer than all else that RAD does for a job without a summary.
local function script_of(options)
    local path = type(options.argv) == "table" and options.argv[1]
    if not path and type(options.wrap) == "string" then return WRAPPED .. options.wrap end
    -- Standard input sbatch has read by now: a file is there still, what came through a pipe is not.
    if not path and (io.stdin:seek() or 0) > 0 then path = "/proc/self/fd/0" end
    if not path then return nil end
    -- Opened for writing too, though nothing is written: else the opening of a FIFO would wait for a writer.
    local file = io.open(path, "r+b")
    if file == nil then return (require("rad_summary").read(path, 4 * 1024 * 1024)) end
    local text
    if file:seek("end") and file:seek("set") then text = file:read(M.longest_block + 1) end -- a pipe cannot seek
    file:close()
    return text
end

-- Whether one of the script's directives may name a model. The answer may be yes where none does: rad_script.lua knows,
-- and to load it takes longer than this.
local function may_name_model(script)
    local lines, found = "\n" .. script, 0
    for _ = 1, 100 do
        found = lines:find("\n#RAD", found + 1, true)
        if found == nil then return false end
        if lines:match("^[^\n]*", found + 1):lower():find("model", 1, true) then return true end
    end
    return true
end

-- Whether a comment at the beginning of a script may be meant for a directive, as "# RAD model=net.txt" is. As above:
-- rad_script.lua knows. To sbatch and to RAD it is a comment, so nobody else says a word of it.
local function may_be_meant(script)
    local lines, found = "\n" .. script:sub(1, M.longest_whole):lower(), 0
    for _ = 1, 1000 do
        found = lines:find("rad", found + 1, true)
        if found == nil then return false end
        local mark = lines:sub(math.max(1, found - 20), found - 1):match("\n([^\n]*)$")
        if mark and mark:find("^%s*#[%s\194\160]*$") and not (mark == "#" and script:find("^RAD[ \t]", found - 1)) then
            return true
        end
    end
    return false
end

-- For cli_filter.lua, as the user, on the login node and, of srun, on nodes: hands the summary that a directive names
-- on in the job's environment. Never refuses: what is wrong is said at submit, by radd.
function M.pre_submit(options)
    if options.type == "srun" and os.getenv("RAD_SHARE") and os.getenv("SLURM_JOB_ID") then
        local ok, reason = pcall(function() require("rad_step")(options) end)
        if not ok then
            pcall(slurm.log_info, "%s", "rad: this step starts as written: " .. tostring(reason):match("[^\n]*"))
        end
    end
    if options.type ~= "sbatch" and options.type ~= "salloc" then return slurm.SUCCESS end
    pcall(function()
        for _, name in ipairs(M.inherited) do
            if os.getenv(name) then
                require("rad_summary").forget()
                break
            end
        end
        if options.type == "salloc" then return end
        -- slurmctld does not tell job_submit.lua that nothing is to run: this is its user's word, and hides a job that
        -- does run from radd until it looks at Slurm again, as it is with each job that has no #RAD line.
        if options["test-only"] == "set" then require("posix.stdlib").setenv("RAD_TEST_ONLY", "1") end
        -- Nor of these, with which a job gets its node whole where AllowSpecResourcesUsage lets it.
        if (options["core-spec"] or "unset") ~= "unset" or (options["thread-spec"] or "unset") ~= "unset" then
            require("posix.stdlib").setenv("RAD_CORE_SPEC", "1")
        end
        local script = script_of(options)
        if not script then return end
        local model = may_name_model(script) and require("rad_script").model_of(script)
        if model then require("rad_summary").hand_on(model, options.uid) end
        if told or not may_be_meant(script) then return end
        told = true
        local said = require("rad_script").meant(script)
        if said then slurm.log_info("%s", "rad: " .. said) end
    end)
    return slurm.SUCCESS
end

-- Put RAD behind the functions that the site's script has defined. `settings` change the values at the top.
function M.wrap(settings)
    for name, value in pairs(settings or {}) do M[name] = value end
    local site_submit, site_pre_submit = slurm_job_submit, slurm_cli_pre_submit
    if not (site_submit or site_pre_submit) then
        pcall(slurm.log_info, "%s", "rad: no job is looked at: move the line with rad.wrap() behind the functions of this "
            .. "script, before its final return")
    end
    if site_submit then
        -- When slurmctld loads its script, before any lock is held.
        local ok, submit = pcall(require, "rad_submit")
        if not ok then
            pcall(slurm.log_info, "%s", "rad: all jobs go through as written, copy all of slurm_hooks/lua/*.lua where "
                .. "rad.lua lies: " .. tostring(submit))
            return
        end
        slurm_job_submit = function(job_desc, part_list, submit_uid)
            local result = site_submit(job_desc, part_list, submit_uid)
            if result ~= nil and result ~= slurm.SUCCESS then return result end
            return submit(job_desc, part_list)
        end
    end
    if site_pre_submit then
        slurm_cli_pre_submit = function(options, offset)
            local result = site_pre_submit(options, offset)
            if result ~= nil and result ~= slurm.SUCCESS then return result end
            return M.pre_submit(options)
        end
    end
end

return M
