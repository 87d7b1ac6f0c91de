-- What the scripts share: the names of the keys, and the waiting line.
--
-- A member of the line that is also in `waiters` is a C waiter; any other is a
-- JVM contender, which is woken but never reserved for.
local LEASE, TENURE, NEXT, TOMB = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local TOKEN, FENCE, LINE = KEYS[5], KEYS[6], KEYS[7]
local WAITERS, ATTEMPTS = KEYS[8], KEYS[9]
local RESERVATION_MS = 300

-- The field of ATTEMPTS that names who was called last: no id is empty.
local CALLED = ''

local function clock_us()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end

local function channel_of(id)
    return LEASE .. ':' .. id
end

local function forget(id)
    redis.call('ZREM', LINE, id)
    redis.call('ZREM', WAITERS, id)
    redis.call('HDEL', ATTEMPTS, id)
end

-- Reads the line from its head until `want` live C waiters are found. Live is
-- who has a subscriber and an unlapsed waiter lease; `me` has just asked, so it
-- is alive. Returns the live, then those who only seem dead, then the JVM
-- contenders that stand before all of the live.
local function look(now_ms, want, me)
    local live, silent, foreign, lapsed = {}, {}, {}, {}
    local from, step = 0, 4
    while #live < want do
        local ids = redis.call('ZRANGE', LINE, from, from + step - 1)
        if #ids == 0 then
            break
        end
        local ends = redis.call('ZMSCORE', WAITERS, unpack(ids))
        local channels = {}
        for i, id in ipairs(ids) do
            channels[i] = channel_of(id)
        end
        local counts = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
        for i, id in ipairs(ids) do
            if not ends[i] then
                if #live == 0 then
                    foreign[#foreign + 1] = id
                end
            elseif tonumber(ends[i]) < now_ms then
                lapsed[#lapsed + 1] = id
            elseif id == me or counts[2 * i] > 0 then
                live[#live + 1] = id
            else
                silent[#silent + 1] = id
            end
        end
        from = from + #ids
        step = 100
    end
    for _, id in ipairs(lapsed) do
        forget(id)
    end
    return live, silent, foreign
end

-- The two that were told may both be stopped, which no connection shows. If
-- neither was heard of lately, the one that was heard of last is told as well:
-- it asks, and asks again when the reservation is over.
local LATELY_MS = 100

local function tell_freshest(first, second, message)
    local freshest = redis.call('ZRANGE', WAITERS, -1, -1, 'WITHSCORES')
    local ends = redis.call('ZMSCORE', WAITERS, first, second)
    local last_heard = math.max(ends[1], ends[2])
    if freshest[2] - last_heard > LATELY_MS then
        redis.call('PUBLISH', channel_of(freshest[1]), message)
    end
end

-- The free mutex goes to the first live waiter, which has 300 ms to come; the
-- second is told as well. Without a live one everybody is told, those too who
-- may just be reconnecting.
local function call_next(now_ms, by)
    local live, silent, foreign = look(now_ms, 2)
    local message = 'released@@' .. by
    for _, id in ipairs(foreign) do
        redis.call('ZREM', LINE, id)
        redis.call('PUBLISH', channel_of(id), message)
    end
    if live[1] then
        redis.call('ZREM', LINE, live[1])
        redis.call('SET', NEXT, live[1], 'PX', RESERVATION_MS)
        redis.call('HSET', ATTEMPTS, CALLED, live[1])
    else
        redis.call('PUBLISH', LEASE, message)
        live = silent
    end
    for i = 1, 2 do
        if live[i] then
            redis.call('PUBLISH', channel_of(live[i]), message)
        end
    end
    if live[2] then
        tell_freshest(live[1], live[2], message)
    end
end

-- A place behind everybody who has one: places follow the clock, but never
-- back. What is beyond all clocks is not ours and is not followed.
local function last_place_us(now_us)
    local last = redis.call('ZRANGE', LINE, -1, -1, 'WITHSCORES')
    local last_us = math.floor((tonumber(last[2]) or 0) * 1000000 + 0.5)
    if last_us >= now_us and last_us < 9e15 then
        return last_us + 1
    end
    return now_us
end

-- In seconds with the microseconds as a fraction, as JVM scores are seconds.
local function put_in_line(id, place_us)
    redis.call('ZADD', LINE, string.format('%.6f', place_us / 1000000), id)
end

-- Who was called and did not come has lost its place: back to the end. Was
-- there one?
local function requeue_missing(now_us, called)
    local missing = not called and redis.call('HGET', ATTEMPTS, CALLED)
    if missing then
        local lapses = redis.call('ZSCORE', WAITERS, missing)
        redis.call('HDEL', ATTEMPTS, CALLED)
        if lapses and tonumber(lapses) * 1000 >= now_us then
            put_in_line(missing, last_place_us(now_us))
        end
    end
    return missing
end

-- Is this tenure the owner's, and not left over from one that was deleted?
local function is_tenure_of(tenure, owner)
    return owner and tenure and
        string.sub(tenure, -#owner - 1) == ' ' .. owner
end
