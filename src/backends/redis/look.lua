-- name: look
-- Those who wait and have heard nothing: do they still stand in their queues, and
-- for how long must they wait? Their waiter leases are renewed.
--
-- KEYS: of each mutex lease, tenure, queue, waiters and attempts. ARGV: letters,
-- then of each mutex waiter ms, how many ids, and id and attempt of each. Replies a
-- text of numbers: of each mutex what is left of the lease in ms, -1 if it is free,
-- -2 if its owner is not one of ours alone; token, lease in ms and renewals of the
-- tenure, or 0; then of each id 1 if it is the first in the queue, 0 if it stands
-- behind, -1 if it is not there.
local now_ms = math.floor(clock_us() / 1000)
local numbers, at = {}, 2

local function tell(number)
    numbers[#numbers + 1] = number
end

local function tell_tenure(lease, found)
    local owner, tenure = found[1], found[2]
    if owner and owner ~= CROWD and is_tenure_of(tenure, owner) then
        tell(redis.call('PTTL', lease))
        tell(string.match(tenure, '^%x+[ !](%d+)') or 0)
    else
        tell(owner and -2 or -1)
        tell(0)
    end
    local lease_ms, renewals = string.match(tenure or '', '%z(%d+) (%d+)')
    tell(lease_ms or 0)
    tell(renewals or 0)
end

for k = 1, #KEYS, 5 do
    local queue, waiters, attempts = KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
    local waiter_ms, count = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
    local ids, renewed = {}, {}
    tell_tenure(KEYS[k], redis.call('MGET', KEYS[k], KEYS[k + 1]))
    for i = 1, count do
        ids[i] = ARGV[at + 2 * i]
    end
    local noted = redis.call('HMGET', attempts, unpack(ids))
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    local positions = count == 1 and ids[1] == first and ids or
        redis.call('ZMSCORE', queue, unpack(ids))
    for i, id in ipairs(ids) do
        if positions[i] and noted[i] == ARGV[at + 2 * i + 1] then
            renewed[#renewed + 1] = now_ms + waiter_ms
            renewed[#renewed + 1] = id
            tell(id == first and 1 or 0)
        else
            tell(-1)
        end
    end
    if #renewed > 0 then
        redis.call('ZADD', waiters, 'XX', unpack(renewed))
        if redis.call('PTTL', waiters) < waiter_ms then
            local keep_ms = 2 * waiter_ms -- so that this is done more rarely
            redis.call('PEXPIRE', queue, keep_ms)
            redis.call('PEXPIRE', waiters, keep_ms)
            redis.call('PEXPIRE', attempts, keep_ms)
        end
    end
    at = at + 2 + 2 * count
end
return table.concat(numbers, ' ')
