-- name: look
-- Those who wait and have heard nothing: do they still stand in their queues, and
-- for how long must they wait? Their waiter leases are renewed.
--
-- KEYS: of each who waits the lease key of its mutex, those of one mutex together;
-- the names of its other keys begin with that, so that a cluster has them here, too.
-- ARGV: letters, waiter ms, then of each its attempt and its id as one word. Replies
-- a text of numbers: of each mutex what is left of the lease in ms, -1 if it is free,
-- -2 if its owner is not one of ours alone; token, lease in ms and renewals of the
-- tenure, or 0; then of each id 1 if it is the first in the queue, 0 if it stands
-- behind, -1 if it is not there.
local call, match, sub = redis.call, string.match, string.sub
local waiter_ms = tonumber(ARGV[2])
local lapses = string.format('%.0f', math.floor(clock_us() / 1000) + waiter_ms)
local numbers, told, at, count = {}, 0, 1, #KEYS

while at <= count do
    local lease, first_at, ids, renewed = KEYS[at], at, {}, {}
    local queue, waiters = lease .. ':contender', lease .. ':waiters'
    local attempts = lease .. ':attempts'
    local found = call('MGET', lease, lease .. ':tenure')
    local owner, tenure = found[1], found[2] or ''
    local left, token, lease_ms, renewals = owner and -2 or -1, 0, 0, 0

    if owner and owner ~= CROWD then -- as it is mostly written, or else
        local number, id, length, extended =
            match(tenure, '^%x+[ !](%d+)%S* %d+ %d+ (%Z*)%z(%d+) (%d+)')
        if id ~= owner and is_tenure_of(tenure, owner) then
            number = match(tenure, '^%x+[ !](%d+)')
            length, extended = match(tenure, '%z(%d+) (%d+)')
            id = owner
        end
        if id == owner then
            left, token = call('PTTL', lease), number or 0
            lease_ms, renewals = length or 0, extended or 0
        end
    end
    numbers[told + 1], numbers[told + 2] = left, token
    numbers[told + 3], numbers[told + 4] = lease_ms, renewals
    told = told + 4

    while KEYS[at] == lease do
        ids[#ids + 1] = sub(ARGV[at + 2], 33)
        at = at + 1
    end
    local noted = call('HMGET', attempts, unpack(ids))
    local first = call('ZRANGE', queue, 0, 0)[1]
    local positions = #ids == 1 and ids[1] == first and ids or
        call('ZMSCORE', queue, unpack(ids))
    for i, id in ipairs(ids) do
        told = told + 1
        if positions[i] and noted[i] == sub(ARGV[first_at + i + 1], 1, 32) then
            renewed[#renewed + 1] = lapses
            renewed[#renewed + 1] = id
            numbers[told] = id == first and 1 or 0
        else
            numbers[told] = -1
        end
    end
    if #renewed > 0 then
        call('ZADD', waiters, 'XX', unpack(renewed))
        if call('PTTL', waiters) < waiter_ms then
            local keep_ms = 2 * waiter_ms -- so that this is done more rarely
            call('PEXPIRE', queue, keep_ms)
            call('PEXPIRE', waiters, keep_ms)
            call('PEXPIRE', attempts, keep_ms)
        end
    end
end
return table.concat(numbers, ' ')
