-- Take the mutex if it is free and it is this contender's turn.
--
-- ARGV: id, attempt, lease ms, transition ms, waiter ms (0: do not join the
-- line), place in us or 0.
-- Answers: mine, clock us, owner, tenure, lease left ms, token, place us or the
-- one it would have got, is head, ms to wait for; when refused also whether one
-- that had been called was found missing.
local id, attempt, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local found = redis.call('MGET', LEASE, TENURE, NEXT, TOMB)
local owner, tenure, called = found[1], found[2], found[3]
local now_us = clock_us()
local now_ms = math.floor(now_us / 1000)
local is_awaited = redis.call('EXISTS', WAITERS) == 1
local is_in_line, has_missed = false, false

local function join()
    local place_us = is_in_line and redis.call('ZSCORE', LINE, id)
    local waiter_ms = tonumber(ARGV[5])
    if place_us then
        place_us = math.floor(place_us * 1000000 + 0.5)
    else
        place_us = tonumber(ARGV[6])
        if place_us == 0 then
            place_us = last_place_us(now_us)
        end
        put_in_line(id, place_us)
        redis.call('HSET', ATTEMPTS, id, attempt)
    end
    redis.call('ZADD', WAITERS, now_ms + waiter_ms, id)
    if redis.call('PTTL', WAITERS) < waiter_ms then
        redis.call('PEXPIRE', LINE, waiter_ms)
        redis.call('PEXPIRE', WAITERS, waiter_ms)
        redis.call('PEXPIRE', ATTEMPTS, waiter_ms)
    end
    return place_us, look(now_ms, 1, id)[1] == id and 1 or 0
end

local function refuse(wait_ms)
    local place_us, is_head
    if ARGV[5] ~= '0' then
        place_us, is_head = join()
    else -- first come is who first asked, whenever it joins
        place_us, is_head = last_place_us(now_us), 0
    end
    return {0, now_us, owner or '', tenure or '', wait_ms,
        owner and redis.call('GET', TOKEN) or '', place_us, is_head, wait_ms,
        has_missed and 1 or 0}
end

-- The clock carries the token over lost data, the counter over a clock that
-- stands still or steps back. Beyond 2^53 only Redis can count. The token of the
-- tenure before comes second, or ''.
local function next_token()
    local token = string.format('%.0f', now_us)
    local last = redis.call('SET', FENCE, token, 'GET')
    if last and (tonumber(last) or 0) >= now_us then
        redis.call('SET', FENCE, last)
        redis.call('INCR', FENCE)
        token = redis.call('GET', FENCE)
    end
    return token, string.match(last or '', '^%d+$') or ''
end

local function grant()
    local token, former
    redis.call('PUBLISH', LEASE, 'acquired@@' .. id) -- first: may be denied
    token, former = next_token()
    if not redis.call('SET', LEASE, id, 'NX', 'PX', lease_ms) then
        return redis.error_reply('WRONGTYPE the lease key is not a string')
    end
    tenure = attempt .. ' ' .. token .. '<' .. former ..
        string.format(' %.0f ', now_ms) .. ARGV[4] .. ' ' .. id
    redis.call('SET', TOKEN, token, 'PX', lease_ms)
    redis.call('SET', TENURE, tenure, 'PX', lease_ms)
    if is_in_line then
        forget(id)
    end
    if called then
        redis.call('DEL', NEXT)
        redis.call('HDEL', ATTEMPTS, CALLED)
    end
    return {1, now_us, id, tenure, tonumber(lease_ms), token, 0, 0, 0}
end

if found[4] then -- undone before it came
    return {0, now_us, owner or '', tenure or '', 0, '', 0, 0, 0}
end
if owner == id and tenure and
    string.sub(tenure, 1, 33) == attempt .. ' ' and
    is_tenure_of(tenure, owner) then
    redis.call('PEXPIRE', LEASE, lease_ms)
    redis.call('PEXPIRE', TOKEN, lease_ms)
    redis.call('PEXPIRE', TENURE, lease_ms)
    return {1, now_us, id, tenure, tonumber(lease_ms),
        string.match(tenure, '^%S+ (%d+)'), 0, 0, 0}
end
if is_awaited then
    local known = redis.call('HGET', ATTEMPTS, id)
    is_in_line = known == attempt
    if known and not is_in_line then -- a former life of the same id
        forget(id)
        if called == id then
            redis.call('DEL', NEXT)
            redis.call('HDEL', ATTEMPTS, CALLED)
            called = false
        end
    end
    has_missed = requeue_missing(now_us, called)
end
if owner then
    if called == id then -- passed by one who does not know the line
        redis.call('DEL', NEXT)
        redis.call('HDEL', ATTEMPTS, CALLED)
    end
    return refuse(redis.call('PTTL', LEASE))
end
if called and called ~= id then
    return refuse(redis.call('PTTL', NEXT))
end
if is_awaited and not called then
    local first = look(now_ms, 1, is_in_line and id or nil)[1]
    if first and first ~= id then
        call_next(now_ms, id)
        return refuse(RESERVATION_MS)
    end
end
return grant()
