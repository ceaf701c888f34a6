-- For cli_filter.lua where a step starts in a job that RAD shares. Such a job holds no GPU but shares of one: a step of it
-- that asks for that GPU takes what the job has.

-- Whether an amount of GPUs, perhaps behind their type, is one.
local function is_one(amount)
    if type(amount) ~= "string" then return false end
    local number = amount:gsub("=", ":"):gsub("^[%a_][%w_.-]*:?", "")
    return number == "" or number:match("^0*1$") ~= nil
end

-- Whether a generic resource is one GPU, as `gres/gpu:h200:1` is.
local function is_one_gpu(item)
    local gres = item:gsub("gres[:/]", "")
    return gres == "gpu" or is_one(gres:match("^gpu[:=](.+)$"))
end

-- Options by which a step asks for what goes with GPUs of the job. They cannot be taken away here, and Slurm's own words
-- about them are of GRES that the user never asked for. Tasks that are bound to GPUs see none, or crash (22.05).
local OF_GPUS = { ["cpus-per-gpu"] = true, ["ntasks-per-gpu"] = true, ["gpu-bind"] = true, ["tres-bind"] = true }

-- What says the same of a job's one GPU; nil where none of these options is set.
local function instead_of(options)
    local function amount(name)
        return tonumber(tostring(options[name] or ""):match("^[1-9]%d?%d?%d?$"))
    end
    local cpus, tasks, of_gpu = amount("cpus-per-gpu"), amount("ntasks") or 1, amount("ntasks-per-gpu")
    if not (cpus or of_gpu) then
        return (options["gpu-bind"] or tostring(options["tres-bind"]):find("^gres[:/]gpu:")) and {} or nil
    end
    if tasks == 1 and of_gpu then tasks = of_gpu end
    local words = { "--ntasks=" .. tasks } -- else srun makes as many tasks as the job has processors for
    if cpus then -- no more than there are: with a GPU Slurm starts such a step too
        local most = tonumber(os.getenv("SLURM_CPUS_ON_NODE")) or cpus
        words[2] = "--cpus-per-task=" .. math.max(1, math.floor(math.min(cpus, most) / tasks))
    end
    return words
end

-- Whether a word of the command line is one of these options, or as much of its name as no other begins with.
local function is_of_gpus(word)
    local name = word:match("^%-%-([%w-]+)")
    if name == nil or name == "ntasks" then return false end
    for known in pairs(OF_GPUS) do
        if known:sub(1, #name) == name then return true end -- of several that begin so srun would have taken none
    end
    return false
end

-- srun's own command line.
local function command_line()
    local file = assert(io.open("/proc/self/cmdline", "rb"))
    local line, position = {}, 1
    local text = file:read("*a")
    file:close()
    for stop in text:gmatch("()%z") do
        line[#line + 1] = text:sub(position, stop - 1)
        position = stop + 1
    end
    return line
end

-- Become srun anew, with other words; returns only where that fails.
local function start_anew(line)
    local unistd = require("posix.unistd")
    line[0] = table.remove(line, 1)
    unistd.exec(unistd.readlink("/proc/self/exe"), line)
end

-- srun takes variables by which scripts count for options. What is said here of the first two, later versions write
-- into them; the others cannot be taken back here. TaskProlog gives all of them back to the step's tasks.
local COUNTED = { "SLURM_GPUS", "SLURM_GPUS_PER_NODE" }
local HIDDEN = { "SLURM_CPUS_PER_GPU", "SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_GPU" }

local function counts_of(names)
    local text = ""
    for _, name in ipairs(names) do
        local value = os.getenv(name) or ""
        if value ~= "" then text = text .. name .. "=" .. value .. " " end
    end
    return text
end

local function keep_counts(options)
    if os.getenv("RAD_COUNTED") then return end -- srun was started anew
    local counted, hidden = counts_of(COUNTED), counts_of(HIDDEN)
    if counted .. hidden == "" then return end
    local setenv = require("posix.stdlib").setenv
    local cpus = tonumber((os.getenv("SLURM_CPUS_PER_GPU") or ""):match("^%d+$"))
    if cpus and not os.getenv("SRUN_CPUS_PER_TASK") then
        local each = math.max(1, math.floor(cpus / (tonumber(options.ntasks) or 1)))
        setenv("SRUN_CPUS_PER_TASK", ("%d"):format(each))
        hidden = hidden .. "SRUN_CPUS_PER_TASK " -- from the step's tasks: jobs that they submit would inherit it
    end
    assert(setenv("RAD_COUNTED", counted .. hidden)) -- without it srun would be started anew for ever
    if hidden == "" then return end
    for _, name in ipairs(HIDDEN) do setenv(name) end
    start_anew(command_line())
end

-- srun's command line without these options and with `words`; nil where it has none of them, or is of several jobs.
local function reworded(options, words)
    local line, made = command_line(), {}
    local own = #line - #options.argv -- behind these stands what the step runs
    local found, skip = false, false
    for i = 1, own do
        if line[i] == ":" then return nil end
        if skip then
            skip = false
        elseif is_of_gpus(line[i]) then
            found, skip = true, not line[i]:find("=", 1, true)
        else
            made[#made + 1] = line[i]
        end
    end
    if not found then return nil end
    -- Last, as srun takes the last of what is said twice.
    local last = made[#made] == "--" and #made or #made + 1
    for i, word in ipairs(words) do table.insert(made, last + i - 1, word) end
    for i = own + 1, #line do made[#made + 1] = line[i] end
    return made
end

return function(options)
    pcall(keep_counts, options)
    for _, name in ipairs({ "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task" }) do
        local of_each = name == "gpus-per-task" and (options.ntasks or "1") ~= "1" -- several tasks ask for several
        if is_one(options[name]) and not of_each then options[name] = "" end
    end
    local each = options["tres-per-task"]
    if type(each) == "string" and (options.ntasks or "1") == "1" then
        local rest = {}
        for item in each:gmatch("[^,]+") do
            if not is_one_gpu(item) then rest[#rest + 1] = item end
        end
        options["tres-per-task"] = table.concat(rest, ",")
    end
    if options["mem-per-gpu"] then options["mem-per-gpu"] = "0" end
    -- All of the job's shares, as each of its steps may take as much memory: as with a GPU, the next one waits.
    if type(options.gres) == "string" then
        local all = "mps:" .. os.getenv("RAD_SHARE")
        local gres = options.gres:gsub("[^,]+", function(item) return is_one_gpu(item) and all or nil end)
        if gres ~= options.gres then options.gres = gres end
    end
    -- By these TaskProlog knows a job of RAD's, also where a step is to get nothing of its environment.
    local export = type(options.export) == "string" and options.export or ""
    if export ~= "" and not ("," .. export:upper() .. ","):find(",ALL,", 1, true) then
        local names = "RAD_SHARE,RAD_THREAD_PERCENTAGE,RAD_COUNTED"
        local nothing = export:upper() == "NONE" or export:upper() == "NIL"
        options.export = nothing and names or export .. "," .. names
    end
    local words = instead_of(options)
    if not words then return end
    pcall(function()
        local line = reworded(options, words)
        if line then start_anew(line) end
    end)
    slurm.log_info("%s", "rad: this job holds shares of a GPU, and Slurm starts no step of it as it should with "
        .. "--cpus-per-gpu, --ntasks-per-gpu, --gpu-bind or --tres-bind: "
        .. (words[1] and "write " .. table.concat(words, " ") .. " instead" or "leave them out"))
end
