-- For cli_filter.lua where a script names a summary: reads the file as the user and hands it on in the job's environment.

local rad = require("rad")
local M = {}
-- What later versions of sbatch say where nobody set --uid: SLURM_AUTH_NOBODY.
local UNSET = 99

-- The text of a regular file, or nil and what is wrong with it.
function M.read(path, longest)
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

local function setenv(name, value)
    require("posix.stdlib").setenv(name, value)
end

-- Take out what the job that runs this sbatch was given.
function M.forget()
    for _, name in ipairs(rad.inherited) do
        if os.getenv(name) then setenv(name) end
    end
    for i = 2, rad.max_pieces do
        if os.getenv("RAD_SUMMARY_" .. i) then setenv("RAD_SUMMARY_" .. i) end
    end
end

-- Put the summary at `path` into the environment of a job of user `uid`, or what is wrong with it.
function M.hand_on(path, uid)
    local summary, reason
    -- sbatch --uid: what another's script names is not root's to read, and the job's user to see.
    local user = tonumber(uid) or 0
    if user ~= 0 and user ~= UNSET and require("posix.unistd").geteuid() == 0 then
        reason = "is not read by root for another user; `radctl embed` writes it into the script"
    else
        summary, reason = M.read(path, rad.longest_summary)
    end
    if summary and summary:find("\0", 1, true) then
        local mark = summary:sub(1, 2)
        local wide = mark == "\255\254" or mark == "\254\255"
        summary, reason = nil, wide and "is UTF-16: save it as UTF-8" or "is not text"
    end
    if summary == nil then
        setenv("RAD_SUMMARY", "error " .. reason)
        return
    end
    local count = 0
    for from = 1, #summary, rad.piece do
        count = count + 1
        setenv("RAD_SUMMARY_" .. count, summary:sub(from, from + rad.piece - 1))
    end
    setenv("RAD_SUMMARY", "ok " .. count)
end

return M
