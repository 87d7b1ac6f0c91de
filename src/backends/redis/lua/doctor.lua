-- May we do what contenders do? Tries every command of the other scripts on a
-- key of its own, which no mutex has, and leaves nothing.
--
-- KEYS: that key. Answers the names of those that were refused, and what was
-- said of the first.
local KEY = KEYS[1]
local refused, reason = {}, ''

local function try(...)
    local answer = redis.pcall(...)
    if type(answer) == 'table' and answer.err then
        if #refused == 0 then
            reason = answer.err
        end
        refused[#refused + 1] = '+' .. string.lower((...))
    end
end

try('DEL', KEY)
try('SET', KEY, '1', 'PX', '1000')
try('INCR', KEY)
try('GET', KEY)
try('MGET', KEY)
try('EXISTS', KEY)
try('PTTL', KEY)
try('PEXPIRE', KEY, '1000')
redis.pcall('DEL', KEY)
try('HSET', KEY, 'a', '1')
try('HGET', KEY, 'a')
try('HDEL', KEY, 'a')
redis.pcall('DEL', KEY)
try('ZADD', KEY, '1', 'a')
try('ZSCORE', KEY, 'a')
try('ZMSCORE', KEY, 'a')
try('ZRANGE', KEY, '0', '-1')
try('ZCARD', KEY)
try('ZREM', KEY, 'a')
redis.pcall('DEL', KEY)
try('TIME')
try('PUBLISH', KEY, 'released@@doctor')
try('PUBSUB', 'NUMSUB', KEY)
return {table.concat(refused, ' '), reason}
