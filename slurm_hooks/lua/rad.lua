-- RAD's side of job_submit.lua and cli_filter.lua. Lua 5.1 to 5.4.
--
-- A site's own job_submit.lua or cli_filter.lua gains one line, before its final `return`:
--     local ok, rad = pcall(require, "rad"); if ok then rad.wrap() end
-- The site's own functions run first and keep the last word on what they refuse.
--
-- Every sbatch loads this file: it holds what a job without #RAD lines needs. rad_submit.lua is slurmctld's,
-- rad_script.lua reads scripts, rad_summary.lua the summary that one of them names.

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
}

-- As much of the script as its leading comment block can take, or nil where it is no regular file. Without lua-posix
-- where that works: loading it takes longer than all else that RAD does for a job without a summary.
local function script_of(options)
    local path = type(options.argv) == "table" and options.argv[1]
    if not path then return nil end
    -- Opened for writing too, though nothing is written: else the opening of a FIFO would wait for a writer.
    local file = io.open(path, "r+b")
    if file == nil then return (require("rad_summary").read(path, 4 * 1024 * 1024)) end
    local text
    if file:seek("end") and file:seek("set") then text = file:read(M.longest_block + 1) end -- a pipe cannot seek
    file:close()
    return text
end

-- Whether an amount of GPUs, perhaps behind their type, is one.
local function is_one(amount)
    if type(amount) ~= "string" then return false end
    local number = amount:gsub("=", ":"):gsub("^[%a_][%w_.-]*:?", "")
    return number == "" or number:match("^0*1$") ~= nil
end

-- A job that RAD shares holds no GPU but shares of one: a step of it that asks for that GPU takes what the job has.
local function give_step_the_share(options)
    for _, name in ipairs({ "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task" }) do
        local of_each = name == "gpus-per-task" and (options.ntasks or "1") ~= "1" -- several tasks ask for several
        if is_one(options[name]) and not of_each then options[name] = "" end
    end
    if options["mem-per-gpu"] then options["mem-per-gpu"] = "0" end
    local gres = type(options.gres) == "string" and options.gres:gsub("gres[:/]", "") or ""
    -- A step cannot ask for all; this gives it the GPU, and the job's cap holds for each of its steps.
    if gres == "gpu" or is_one(gres:match("^gpu[:=](.+)$")) then options.gres = "mps:1" end
    -- By these TaskProlog knows a job of RAD's, also where a step is to get nothing of its environment.
    local export = type(options.export) == "string" and options.export or ""
    if export ~= "" and not ("," .. export:upper() .. ","):find(",ALL,", 1, true) then
        local names = "RAD_SHARE,RAD_THREAD_PERCENTAGE"
        local nothing = export:upper() == "NONE" or export:upper() == "NIL"
        options.export = nothing and names or export .. "," .. names
    end
    -- These cannot be taken away here, and Slurm's own words about them are of GRES that the user never asked for.
    for name, instead in pairs({ ["cpus-per-gpu"] = "cpus-per-task", ["ntasks-per-gpu"] = "ntasks" }) do
        local amount = tostring(options[name] or ""):match("^[1-9]%d?%d?%d?$")
        if amount then
            slurm.log_info("%s", string.format("rad: this job holds shares of a GPU, and Slurm starts no step of it with "
                .. "--%s: write --%s=%s instead", name, instead, amount))
        end
    end
end

-- For cli_filter.lua, as the user, on the login node and, of srun, on nodes: hands the summary that a directive names
-- on in the job's environment. Never refuses: what is wrong is said at submit, by radd.
function M.pre_submit(options)
    if options.type == "srun" and os.getenv("RAD_SHARE") and os.getenv("SLURM_JOB_ID") then
        pcall(give_step_the_share, options)
    end
    if options.type ~= "sbatch" and options.type ~= "salloc" then return slurm.SUCCESS end
    pcall(function()
        -- A job that submits jobs must not pass its own on; steps of an allocation within it would take it for theirs.
        for _, name in ipairs({ "RAD_SUMMARY", "RAD_SHARE", "RAD_THREAD_PERCENTAGE", "RAD_SUMMARY_1" }) do
            if os.getenv(name) then
                require("rad_summary").forget()
                break
            end
        end
        if options.type == "salloc" then return end
        local script = script_of(options)
        if not (script and script:find("#RAD", 1, true)) then return end
        local model = require("rad_script").model_of(script)
        if model then require("rad_summary").hand_on(model) end
    end)
    return slurm.SUCCESS
end

-- Put RAD behind the functions that the site's script has defined. `settings` change the values at the top.
function M.wrap(settings)
    for name, value in pairs(settings or {}) do M[name] = value end
    local site_submit = slurm_job_submit
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
