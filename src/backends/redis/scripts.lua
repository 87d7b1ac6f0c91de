-- The scripts that keep a mutex. scripts.c says which sections each is made of.
-- Redis makes the functions of a script anew each time it runs. So those of the
-- queue come after what is enough for a mutex that nobody else wants.
--
-- KEYS are those of one mutex, as README.md lists them; `doctor` has one of its
-- own. ARGV begins with letters: c, this is a node of a cluster, which knows its
-- own subscribers only; j, JVM contenders are to be expected. A reply begins
-- with: mine, clock us, owner, tenure, lease left ms, token, position us, is
-- head, ms to wait for.

-- name: common
-- The names of the keys, and the queue of waiters.
--
-- A member of the queue that is also in WAITERS is a C waiter; any other is a
-- JVM contender. It knows of no offer, so while it has one the others are kept
-- off.
local LEASE, TENURE, NEXT, TOMBSTONE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local TOKEN, FENCE, QUEUE = KEYS[5], KEYS[6], KEYS[7]
local WAITERS, ATTEMPTS = KEYS[8], KEYS[9]
local CROWD = 'slots@' -- the owner of a mutex that several own
local OFFER_MS, JVM_OFFER_MS, JVM_OFFER_MOST_MS = 300, 100, 800
local IS_CLUSTER = string.find(ARGV[1] or '', 'c', 1, true)

-- Fields of ATTEMPTS beside ids, which are not empty and do not end in @: who
-- was offered the mutex last; until when a JVM owner is remembered, in ms; how
-- often the mutex went from one of ours to the next since JVM contenders could
-- have it, and how often it may; for how long it is offered to one of them.
local OFFERED, JVM_UNTIL, TURNS, TURNS_MOST = '', 'jvm@', 'turns@', 'most@'
local JVM_OFFER = 'late@'

-- NEXT when the mutex is left to JVM contenders; and as the id of a channel
-- that all of ours subscribe to who hear the broadcasts.
local JVM = '@'

local function clock_us()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end

local function channel_of(id)
    return LEASE .. ':' .. id
end

-- The field of a waiter's position, for a JVM release may delete the queue.
local function position_field(id)
    return id .. '@'
end

-- name: tenure
-- What is written down of a tenure.
--
-- Behind the owner's id a tenure has a NUL, which is where older versions stop
-- reading, its lease in ms, how often it was renewed, and if its owner is asked
-- to hand over the id of the successor, or @ for anybody.
local NUL = string.char(0)

-- Is this tenure the owner's, and not left over from one that was deleted?
local function is_tenure_of(tenure, owner)
    return owner and tenure and
        string.sub(string.match(tenure, '^%Z*'), -#owner - 1) == ' ' .. owner
end

local function renewals_of(tenure)
    return string.match(tenure, '%z%d+ (%d+)')
end

-- name: extend
-- A tenure goes on.

-- The lease begins anew; who waits sees it by the count, whatever the clock.
-- Returns what is written down of it now.
local function extend(tenure, lease_ms)
    local renewals, asked = string.match(tenure, '%z%d+ (%d+)(.*)$')
    redis.call('PEXPIRE', LEASE, lease_ms)
    redis.call('PEXPIRE', TOKEN, lease_ms)
    tenure = string.match(tenure, '^%Z*') .. NUL .. lease_ms ..
        string.format(' %.0f', (renewals or 0) + 1) .. (asked or '')
    redis.call('SET', TENURE, tenure, 'PX', lease_ms)
    return tenure
end

-- name: grant
-- Take the mutex if it is free and nobody alive stands before this contender.
--
-- ARGV: letters, id, attempt, lease ms, transition ms, waiter ms (0: do not join the
-- queue), position in us or 0, and if there is one a token that a new one must be
-- greater than, or '', and "token renewals" of a tenure to be ended: its owner
-- did not renew it for a whole lease, by the clock of who asks.
-- The reply's position is the one it would have got if it did not join; when
-- refused it ends with 1 if one that was offered the mutex did not come, or with
-- the named successor that it is offered to, if that stands behind who asks.
local id, attempt, lease_ms = ARGV[2], ARGV[3], ARGV[4]
local found = redis.call('MGET', LEASE, TENURE, NEXT, TOMBSTONE)
local owner, tenure, offered = found[1], found[2], found[3]
local now_us = clock_us()
local now_ms = math.floor(now_us / 1000)
local is_awaited = offered == id or redis.call('EXISTS', WAITERS) == 1
local is_queued, has_missed, is_taken_out = false, false, false

-- The clock carries the token over lost data, the counter over a clock that
-- stands still or steps back. Beyond 2^53 only Redis can count. The token of the
-- tenure before comes second, or ''.
local function next_token(now_us, above)
    local token = string.format('%.0f', now_us)
    local last = redis.call('SET', FENCE, token, 'GET')
    local former = string.match(last or '', '^%d+$') or ''
    if above and (#above > #former or #above == #former and above > former) then
        last = above
    end
    if last and (tonumber(last) or 0) >= now_us then
        redis.call('SET', FENCE, last)
        redis.call('INCR', FENCE)
        token = redis.call('GET', FENCE)
    end
    return token, former
end

local function grant()
    local token, former
    redis.call('PUBLISH', LEASE, 'acquired@@' .. id) -- first: may be denied
    token, former = next_token(now_us, ARGV[8])
    if not redis.call('SET', LEASE, id, 'NX', 'PX', lease_ms) then
        return redis.error_reply('WRONGTYPE the lease key is not a string')
    end
    tenure = attempt .. ' ' .. token .. '<' .. former ..
        string.format(' %.0f ', now_ms) .. ARGV[5] .. ' ' .. id ..
        NUL .. lease_ms .. ' 0'
    redis.call('SET', TOKEN, token, 'PX', lease_ms)
    redis.call('SET', TENURE, tenure, 'PX', lease_ms)
    return {1, now_us, id, tenure, tonumber(lease_ms), token, 0, 0, 0}
end

-- name: acquire_alone
-- The way it mostly goes.
if not owner and not offered and not found[4] and not is_awaited then
    return grant()
end

-- name: acquire_offered
-- And where others wait: it was offered to who asks, which is not in the queue
-- since. As settle and grant_waiter() would do it.
if offered == id and not owner and not found[4] and
    redis.call('HGET', ATTEMPTS, id) == attempt then
    local granted = grant()
    if not granted.err then
        redis.call('ZREM', WAITERS, id)
        redis.call('HDEL', ATTEMPTS, id, position_field(id), OFFERED)
        redis.call('DEL', NEXT)
    end
    return granted
end

-- name: release_alone
-- End this very attempt: its tenure, its position in the queue, its offer; then
-- offer the mutex to the next.
--
-- ARGV: letters, id, attempt, tombstone ms or 0, and if there is one the token of the
-- grant that is taken back, or '': nothing else is, nor if it was renewed since; and
-- the id of the successor that is to have it. Replies whether a tenure was ended, and
-- which successor it is offered to.
local id, attempt, named = ARGV[2], ARGV[3], ARGV[6]
local found = redis.call('MGET', LEASE, TENURE, NEXT)
local owner, tenure, offered = found[1], found[2], found[3]
local is_mine = owner == id and is_tenure_of(tenure, owner) and
    string.sub(tenure, 1, 32) == attempt and
    ((ARGV[5] or '') == '' or renewals_of(tenure) == '0' and
        string.match(tenure, '^%x+[ !](%d+)') == ARGV[5])
local was_offered = false

if owner == CROWD then
    return {2}
end
if ARGV[4] ~= '0' then
    redis.call('SET', TOMBSTONE, '1', 'PX', ARGV[4])
end
if is_mine then
    redis.call('DEL', LEASE, TOKEN, TENURE)
end
-- The way it mostly goes: nobody waits, and nobody hears this.
local is_awaited = redis.call('EXISTS', QUEUE, WAITERS) > 0
if not is_awaited and
    (not is_mine or redis.call('PUBLISH', LEASE, 'released@@' .. id) == 0) then
    return {is_mine and 1 or 0}
end

-- name: hand
-- Whom the free mutex is offered to.

-- The two that were told may both be stopped, which no connection shows. If
-- neither has asked lately, the one that asked last is told as well: it asks, and
-- asks again when the offer has lapsed. `lapses` is when the later of their
-- waiter leases ends.
local LATELY_MS = 100

local function notify_freshest(lapses, message)
    local freshest = redis.call('ZRANGE', WAITERS, -1, -1, 'WITHSCORES')
    if freshest[2] - lapses > LATELY_MS then
        redis.call('PUBLISH', channel_of(freshest[1]), message)
    end
end

-- It has 300 ms to come. The second is told so, and asks when they are over: if it
-- asked at once, it would only keep the server from the first. That one's message
-- is the last, for Redis writes first to whom it has found last.
local function hand_to(first, second, lapses, by)
    redis.call('ZREM', QUEUE, first)
    redis.call('SET', NEXT, first, 'PX', OFFER_MS)
    redis.call('HSET', ATTEMPTS, OFFERED, first)
    if second then
        local message = 'offered@@' .. OFFER_MS
        notify_freshest(lapses, message)
        redis.call('PUBLISH', channel_of(second), message)
    end
    redis.call('PUBLISH', channel_of(first), 'released@@' .. by)
end

-- name: release_to_ours
-- The way it mostly goes where some wait: they are ours and alive, and there is
-- no JVM contender. As offer_next() would do it.
local noted = redis.call('HMGET', ATTEMPTS, id, OFFERED, JVM_UNTIL)
local now_us = clock_us()
local now_ms = math.floor(now_us / 1000)
if is_mine and not offered and noted[1] ~= attempt and not noted[2] and
    not noted[3] and not string.find(ARGV[1], 'j', 1, true) then
    local ids = redis.call('ZRANGE', QUEUE, 0, 1)
    local first, second = ids[1], ids[2]
    local ends = first and redis.call('ZMSCORE', WAITERS, unpack(ids)) or {}
    ends[1] = tonumber(ends[1] or 0)
    ends[2] = second and tonumber(ends[2] or 0) or ends[1]
    if ends[1] >= now_ms and ends[2] >= now_ms and
        (not named or named == first) then
        local heard = redis.call('PUBSUB', 'NUMSUB', LEASE, channel_of(JVM),
            channel_of(first), channel_of(second or first))
        if heard[2] <= heard[4] and heard[6] > 0 and heard[8] > 0 then
            hand_to(first, second, math.max(ends[1], ends[2]), id)
            return {1, named and first}
        end
    end
end

-- name: queue
-- Who waits, and who of them lives.

-- Where JVM contenders before 3.0.2 hear: without the braces.
local function old_channel_of(id)
    return 'simba:' .. string.sub(LEASE, 8, -2) .. ':' .. id
end

-- Another field of ATTEMPTS may go with it.
local function forget(id, field)
    redis.call('ZREM', QUEUE, id)
    redis.call('ZREM', WAITERS, id)
    redis.call('HDEL', ATTEMPTS, id, position_field(id), field or id)
end

-- Reads the queue from its head until `want` live C waiters are found. Live is
-- who has a subscriber and an unlapsed waiter lease; `me` has just asked, so it
-- is alive. Returns the live, then those who only seem dead, then the first JVM
-- contender if it stands before all of the live. One that nobody hears for is
-- gone, and would be woken for nothing. Last come the strangers, who are asked
-- for on the way: how many hear the broadcasts and are not ours; and when the
-- last of the waiter leases of the live ends.
local function find_live(now_ms, want, me)
    local live, silent, lapsed, jvm, strangers = {}, {}, {}, nil, 0
    local from, step, last_end = 0, want, 0
    while #live < want do
        local ids = redis.call('ZRANGE', QUEUE, from, from + step - 1)
        if #ids == 0 then
            break
        end
        local ends = redis.call('ZMSCORE', WAITERS, unpack(ids))
        local channels = {}
        for i, id in ipairs(ids) do
            channels[i] = channel_of(id)
        end
        if from == 0 then
            channels[#ids + 1] = LEASE
            channels[#ids + 2] = channel_of(JVM)
        end
        local counts = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
        for i, id in ipairs(ids) do
            if not ends[i] then
                if not IS_CLUSTER and counts[2 * i] == 0 and
                    redis.call('PUBSUB', 'NUMSUB', old_channel_of(id))[2] == 0
                then
                    lapsed[#lapsed + 1] = id
                elseif #live == 0 then
                    jvm = jvm or id
                end
            elseif tonumber(ends[i]) < now_ms then
                lapsed[#lapsed + 1] = id
            elseif id == me or counts[2 * i] > 0 then
                live[#live + 1] = id
                last_end = math.max(last_end, ends[i])
            else
                silent[#silent + 1] = id
            end
        end
        if from == 0 then
            strangers = counts[2 * #ids + 2] - counts[2 * #ids + 4]
        end
        if #ids < step then
            break
        end
        from = from + #ids
        step = 100
    end
    for _, id in ipairs(lapsed) do
        forget(id)
    end
    return live, silent, jvm, strangers, last_end
end

-- name: jvm
-- What room is left for JVM contenders.

-- Many JVM contenders have no position, and their tries leave no trace. They are
-- there if one owned the mutex lately, or if others than ours hear the
-- broadcasts; those that have a position wait for that. Is it time to leave the
-- mutex to them? They all come then, and which of them has it is chance, so they
-- have it twice as often as ours. If none comes, half as often each time; and
-- `least` is how many of ours go first where none is seen. Returns as well
-- whether one is. What else is given, the strangers and JVM_UNTIL, is not read
-- again.
local TURNS_LIMIT, PAUSE_MS = 64, 30

local function is_left_to_jvm(now_ms, least, strangers, jvm_until)
    local is_expected = string.find(ARGV[1], 'j', 1, true)
    if not strangers then
        local heard = redis.call('PUBSUB', 'NUMSUB', LEASE, channel_of(JVM))
        strangers = heard[2] - heard[4]
    end
    if jvm_until == nil then
        jvm_until = redis.call('HGET', ATTEMPTS, JVM_UNTIL)
    end
    local is_seen = (tonumber(jvm_until) or 0) >= now_ms
    if strangers <= 0 and not is_seen and not is_expected then
        return false
    end
    local waiters = redis.call('ZCARD', WAITERS)
    local queued = math.max(redis.call('ZCARD', QUEUE) - waiters, 0)
    local unqueued = math.max(strangers - queued, 0)
    is_seen = is_seen or unqueued > 0
    if not is_seen and not is_expected then
        return false
    end
    local turns = (tonumber(redis.call('HGET', ATTEMPTS, TURNS)) or 0) + 1
    local most = tonumber(redis.call('HGET', ATTEMPTS, TURNS_MOST)) or
        math.floor(waiters / 2 / math.max(unqueued, 1))
    local is_time = turns >= most and
        (is_seen or turns > (least or 0))
    if is_time then
        redis.call('HSET', ATTEMPTS, TURNS_MOST,
            math.min(math.max(2 * most, 2), TURNS_LIMIT))
        turns = 0
    end
    redis.call('HSET', ATTEMPTS, TURNS, turns)
    return is_time, is_seen
end

-- A JVM contender owns the mutex, or did: room was not left in vain.
local function note_jvm(now_ms, lease_ms)
    redis.call('HDEL', ATTEMPTS, TURNS, TURNS_MOST)
    redis.call('HSET', ATTEMPTS, JVM_UNTIL,
        string.format('%.0f', now_ms + 10 * lease_ms))
    if redis.call('PTTL', ATTEMPTS) < 0 then
        redis.call('PEXPIRE', ATTEMPTS, 10 * lease_ms)
    end
end

local function end_offer()
    redis.call('DEL', NEXT)
    redis.call('HDEL', ATTEMPTS, OFFERED)
end

-- JVM contenders have 100 ms to come. When one did not, because its machine is
-- busy, they have twice as long from then on, and less again as they come.
local function jvm_offer_ms()
    return tonumber(redis.call('HGET', ATTEMPTS, JVM_OFFER)) or JVM_OFFER_MS
end

local function note_jvm_offer(has_come)
    local ms = jvm_offer_ms() * (has_come and 15 / 16 or 2)
    redis.call('HSET', ATTEMPTS, JVM_OFFER, string.format('%.0f',
        math.min(math.max(ms, JVM_OFFER_MS), JVM_OFFER_MOST_MS)))
end

-- name: offer
-- Whom the free mutex is offered to, and who did not come.

-- A successor that was named: does it wait, and live?
local function is_waiting(waiter, now_ms)
    local lapses = redis.call('ZSCORE', WAITERS, waiter)
    return lapses and tonumber(lapses) >= now_ms and
        redis.call('ZSCORE', QUEUE, waiter) and
        redis.call('PUBSUB', 'NUMSUB', channel_of(waiter))[2] > 0
end

-- The free mutex is offered to the first waiter, or to the successor that was
-- named, and the next one is told when to ask. It may be left to JVM contenders,
-- unless it was theirs. Without a live one of ours everybody is notified, those
-- too who may just be reconnecting.
local function offer_next(now_ms, by, was_jvms, jvm_until, named)
    local live, silent, jvm, strangers, lapses = find_live(now_ms, 2)
    local message = 'released@@' .. by
    if named and named ~= (jvm or live[1]) and is_waiting(named, now_ms) then
        hand_to(named, live[1] ~= named and live[1] or live[2], lapses, by)
        return
    elseif not jvm and live[1] then
        if was_jvms or
            not is_left_to_jvm(now_ms, 0, strangers, jvm_until) then
            hand_to(live[1], live[2], lapses, by)
            return
        end
        redis.call('SET', NEXT, JVM, 'PX', PAUSE_MS)
        redis.call('PUBLISH', LEASE, message)
    elseif jvm then
        redis.call('ZREM', QUEUE, jvm)
        redis.call('SET', NEXT, jvm, 'PX', jvm_offer_ms())
        redis.call('HSET', ATTEMPTS, OFFERED, jvm)
        redis.call('PUBLISH', channel_of(jvm), message)
        redis.call('PUBLISH', old_channel_of(jvm), message)
        if redis.call('PTTL', ATTEMPTS) < 0 then -- without waiters of ours
            redis.call('PEXPIRE', ATTEMPTS, JVM_OFFER_MOST_MS)
        end
    end
    if not live[1] then
        redis.call('PUBLISH', LEASE, message)
        live = silent
    end
    for i = 1, 2 do
        if live[i] then
            redis.call('PUBLISH', channel_of(live[i]), message)
        end
    end
    if live[2] then
        notify_freshest(lapses, message)
    end
end

-- In seconds with the microseconds as a fraction, as JVM scores are seconds.
local function put_in_queue(id, position_us)
    redis.call('ZADD', QUEUE, string.format('%.6f', position_us / 1000000), id)
end

-- A position behind everybody: positions follow the clock, but never back. What
-- is beyond all clocks is not ours and is not followed. A JVM contender stands at
-- the beginning of the second in which it came, and the release of another wakes
-- who stands first. So ours are a second ahead of the clock, before all that
-- come later; those that are there already keep their lead.
local AHEAD_US = 1000000

local function last_position_us(now_us)
    local second = string.format('%.0f', math.floor(now_us / 1000000))
    local at_us = now_us - AHEAD_US
    for _, id in ipairs(redis.call('ZRANGE', QUEUE, second, second, 'BYSCORE')) do
        if not redis.call('ZSCORE', WAITERS, id) then
            put_in_queue(id, at_us - 1)
        end
    end
    local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
    local last_us = math.floor((tonumber(last[2]) or 0) * 1000000 + 0.5)
    if last_us >= at_us and last_us < 9e15 then
        at_us = last_us + 1
    end
    return at_us
end

-- Those who wait and are not in the queue, because a JVM release deleted it, go
-- back to their positions; who was offered the mutex is not in it.
local function restore_queue()
    local offered = redis.call('HGET', ATTEMPTS, OFFERED)
    for _, id in ipairs(redis.call('ZRANGE', WAITERS, 0, -1)) do
        local position_us = redis.call('HGET', ATTEMPTS, position_field(id))
        if position_us and id ~= offered and
            not redis.call('ZSCORE', QUEUE, id) then
            put_in_queue(id, tonumber(position_us))
        end
    end
end

-- Who was offered the mutex and did not come has lost its position: back to the
-- end, if it still waits. A JVM contender that does puts itself there; it has
-- come if one of them owns the mutex or did.
local function requeue_missing(now_us, missing, is_jvms)
    if missing then
        local lapses = redis.call('ZSCORE', WAITERS, missing)
        if not lapses then
            note_jvm_offer(is_jvms)
        elseif tonumber(lapses) * 1000 >= now_us then
            put_in_queue(missing, last_position_us(now_us))
        end
        redis.call('HDEL', ATTEMPTS, OFFERED) -- last: an empty hash has no end
    end
end

-- name: acquire
-- Who is in the queue, or was offered the mutex.
local function join()
    local position_us = is_queued and redis.call('ZSCORE', QUEUE, id)
    local waiter_ms = tonumber(ARGV[6])
    if position_us then
        position_us = math.floor(position_us * 1000000 + 0.5)
    else
        position_us = tonumber(ARGV[7])
        if position_us == 0 then
            position_us = last_position_us(now_us)
        end
        put_in_queue(id, position_us)
        redis.call('HSET', ATTEMPTS, id, attempt .. (ARGV[10] or ''))
    end
    redis.call('HSET', ATTEMPTS, position_field(id),
        string.format('%.0f', position_us))
    redis.call('ZADD', WAITERS, now_ms + waiter_ms, id)
    if redis.call('PTTL', WAITERS) < waiter_ms then
        redis.call('PEXPIRE', QUEUE, waiter_ms)
        redis.call('PEXPIRE', WAITERS, waiter_ms)
        redis.call('PEXPIRE', ATTEMPTS, waiter_ms)
    end
    return position_us, find_live(now_ms, 1, id)[1] == id and 1 or 0
end

local function refuse(wait_ms)
    local position_us, is_head, successor
    if ARGV[6] ~= '0' then
        position_us, is_head = join()
        if offered and offered ~= JVM and position_us < (tonumber(redis.call(
            'HGET', ATTEMPTS, position_field(offered))) or 0) then
            successor = offered
        end
    else -- first come is who first asked, whenever it joins
        position_us, is_head = last_position_us(now_us), 0
    end
    return {0, now_us, owner or '', tenure or '', wait_ms,
        owner and redis.call('GET', TOKEN) or '', position_us, is_head, wait_ms,
        has_missed and 1 or successor or 0}
end

local function grant_waiter()
    local granted = grant()
    if granted.err then
        return granted
    end
    if is_queued then
        forget(id, offered and OFFERED)
    end
    if offered and is_queued then
        redis.call('DEL', NEXT)
    elseif offered then
        end_offer()
    end
    return granted
end

-- name: acquire_begin
-- What needs no look at the queue. Replies 2 if it is for the script crowd.
if owner == CROWD then
    return {2}
end
if found[4] then -- undone before it came
    return {0, now_us, owner or '', tenure or '', 0, '', 0, 0, 0}
end
if owner == id and tenure and
    string.sub(tenure, 1, 33) == attempt .. ' ' and
    is_tenure_of(tenure, owner) then
    tenure = extend(tenure, lease_ms)
    return {1, now_us, id, tenure, tonumber(lease_ms),
        string.match(tenure, '^%S+ (%d+)'), 0, 0, 0}
end

-- name: settle
-- Who asks in the queue, who was offered the mutex and did not come, and an owner
-- that has passed them. Not functions: to make them would cost each acquire more
-- than they do.
if is_awaited then
    local noted = redis.call('HMGET', ATTEMPTS, id, OFFERED)
    is_queued = noted[1] == attempt .. (ARGV[10] or '')
    if noted[1] and not is_queued then -- a former life of the same id
        forget(id)
        if offered == id then
            end_offer()
            offered, noted[2] = false, false
        end
    end
    -- A JVM owner has released: it takes the first from the queue, or all. So
    -- whichever of them the mutex was left to has had it.
    is_taken_out = is_queued and offered ~= id and ARGV[7] ~= '0' and
        not redis.call('ZSCORE', QUEUE, id)
    has_missed = not offered and noted[2]
    requeue_missing(now_us, has_missed,
        is_taken_out or owner and not is_tenure_of(tenure, owner))
    if is_taken_out and has_missed ~= id then
        put_in_queue(id, tonumber(ARGV[7]))
        restore_queue()
        note_jvm(now_ms, lease_ms)
        if offered and not redis.call('ZSCORE', WAITERS, offered) then
            note_jvm_offer(true)
            end_offer()
            offered = false
        end
    end
end
if owner and ARGV[9] and is_tenure_of(tenure, owner) and ARGV[9] ==
    (string.match(tenure, '^%x+[ !](%d+)') or '') .. ' ' ..
    (renewals_of(tenure) or '') then
    redis.call('DEL', LEASE, TOKEN, TENURE)
    owner, tenure = false, false
end
if owner and owner ~= CROWD then
    if offered == owner then
        note_jvm_offer(true)
    end
    if offered == id or offered == owner or offered == JVM then
        end_offer() -- passed by one who knows no queue
        offered = false
    end
    if not is_tenure_of(tenure, owner) and is_awaited then
        if not redis.call('ZSCORE', WAITERS, owner) then
            redis.call('ZREM', QUEUE, owner) -- or its release wakes itself
        end
        note_jvm(now_ms, lease_ms)
    end
end

-- name: acquire_decision
-- The rest of it: which of these it is.
if owner then
    return refuse(redis.call('PTTL', LEASE))
end
if offered and offered ~= id then
    local left_ms = redis.call('PTTL', NEXT)
    if left_ms > JVM_OFFER_MOST_MS then -- the clock went back
        left_ms = OFFER_MS
        redis.call('PEXPIRE', NEXT, OFFER_MS)
    end
    return refuse(left_ms)
end
if is_awaited and not offered then
    local live, _, jvm = find_live(now_ms, 1, is_queued and id or nil)
    if jvm or live[1] and live[1] ~= id then
        offer_next(now_ms, id, is_taken_out)
        return refuse(redis.call('PTTL', NEXT))
    end
end
return grant_waiter()

-- name: renew
-- Extend this very tenure; never create, never steal.
--
-- ARGV: letters, id, attempt, lease ms.
local id, attempt, lease_ms = ARGV[2], ARGV[3], ARGV[4]
local found = redis.call('MGET', LEASE, TENURE)
local owner, tenure = found[1], found[2]
local now_us = clock_us()

if owner == CROWD then
    return {2}
end
if owner ~= id or not is_tenure_of(tenure, owner) or
    string.sub(tenure, 1, 33) ~= attempt .. ' ' then
    return {0, now_us, owner or '', tenure or '',
        owner and redis.call('PTTL', LEASE) or 0,
        owner and redis.call('GET', TOKEN) or '', 0, 0, 0}
end
extend(tenure, lease_ms)
return {1, now_us, id, tenure, tonumber(lease_ms),
    string.match(tenure, '^%S+ (%d+)'), 0, 0, 0}

-- name: release
-- Somebody waits, or hears of it.
if not is_awaited then
    if is_left_to_jvm(clock_us() / 1000) then
        redis.call('SET', NEXT, JVM, 'PX', PAUSE_MS)
        redis.call('PEXPIRE', ATTEMPTS, 60000)
    end
    return {1}
end
if noted[1] == attempt then
    forget(id)
    if offered == id then
        was_offered = true
        offered, noted[2] = false, false
        end_offer()
    end
end
if not offered and (is_mine or was_offered and not owner) then
    requeue_missing(now_us, noted[2])
    offer_next(now_ms, id, false, noted[3], named)
    offered = named and redis.call('GET', NEXT)
    return {is_mine and 1 or 0, offered and offered ~= JVM and offered}
elseif offered and not owner and not redis.call('ZSCORE', WAITERS, offered) then
    -- It is a JVM contender's for a while; who comes then must know of it.
    local live = find_live(now_ms, 2)
    for i = 1, #live do
        redis.call('PUBLISH', channel_of(live[i]), 'released@@' .. id)
    end
end
return {is_mine and 1 or 0}

-- name: read
-- Who owns it, and who waits and lives? Changes nothing.
--
-- ARGV: letters, 1 to tell the queue as well, 2 to count it; then a word to reply with.
-- The token is the last one if the mutex is free. The reply ends with the id that
-- it is offered to or '' and its slots, then id, position us and slots of each in
-- the queue; or, counted, with how many they are and that word. Of a crowd it is as
-- if the mutex were free, but the token is of the last tenure before the newest of
-- them, and it ends with a list of what the script crowd would reply of each, the
-- oldest first.
local found = redis.call('MGET', LEASE, TENURE, NEXT, TOKEN, FENCE)
local owner, tenure = found[1], found[2]
local offered = found[3] ~= JVM and found[3]
local now_us = clock_us()
local reply = {0, now_us, owner or '', tenure or '',
    owner and redis.call('PTTL', LEASE) or 0,
    (owner and found[4] or not owner and found[5]) or '', 0, 0, 0}

if not owner and redis.call('EXISTS', LEASE) == 1 then
    return redis.error_reply('WRONGTYPE the lease key is not a string')
end
-- Whose waiter lease is over is dead; the next that changes the queue forgets it.
local is_lapsed, lapsed = {}, 0
if ARGV[2] ~= '0' then
    for _, id in ipairs(redis.call('ZRANGE', WAITERS, '-inf',
        string.format('(%.0f', math.floor(now_us / 1000)), 'BYSCORE')) do
        is_lapsed[id] = true
        lapsed = lapsed + (redis.call('ZSCORE', QUEUE, id) and 1 or 0)
    end
end
if ARGV[2] == '2' then
    reply[10] = redis.call('ZCARD', QUEUE) - lapsed + (offered and 1 or 0)
    reply[11] = ARGV[3]
elseif ARGV[2] == '1' then
    local queue = redis.call('ZRANGE', QUEUE, 0, -1, 'WITHSCORES')
    reply[10] = offered or ''
    reply[11] = offered and slots_of(offered) or 0
    for i = 1, #queue, 2 do
        if not is_lapsed[queue[i]] then
            reply[#reply + 1] = queue[i]
            reply[#reply + 1] = math.floor(queue[i + 1] * 1000000 + 0.5)
            reply[#reply + 1] = slots_of(queue[i])
        end
    end
end
if owner == CROWD then
    local now_ms = math.floor(now_us / 1000)
    local members = find_members(now_ms)
    local least, owners = least_slots(members), {}
    reply[3], reply[4], reply[5] = '', '', 0
    for _, m in ipairs(members) do
        if m.token == reply[6] then
            reply[6] = read_member(m).former
            break
        end
    end
    table.sort(members, is_older)
    for i, m in ipairs(members) do
        read_member(m)
        owners[i] = {0, now_us, m.id, tenure_of(m), m.ends - now_ms,
            m.token, 0, 0, 0, 0, {m.slot, m.slots, #members, least, ''}}
    end
    reply[#reply + 1] = owners
end
return reply

-- name: break
-- End the tenure with this token, whoever has it: it can be renewed no more,
-- and is free at the end of its lease, or at once.
--
-- ARGV: letters, token, 1 for at once, why. Mine: it was there.
-- No break without an entry in the record, so that comes first.
local found = redis.call('MGET', LEASE, TENURE, NEXT, TOKEN)
local owner, tenure = found[1], found[2]
local now_us = clock_us()
local reply = {0, now_us, owner or '', tenure or '',
    owner and redis.call('PTTL', LEASE) or 0, owner and found[4] or '', 0, 0, 0}

if owner == CROWD then
    return {2}
end
if not owner or (found[4] or '0') ~= ARGV[2] then
    return reply
end
note_break(now_us, owner, ARGV[2], ARGV[3] == '1', ARGV[4])
reply[1] = 1
if ARGV[3] == '1' then
    redis.call('DEL', LEASE, TOKEN, TENURE)
    redis.call('DEL', NEXT) -- it was passed
    requeue_missing(now_us, redis.call('HGET', ATTEMPTS, OFFERED))
    offer_next(math.floor(now_us / 1000), owner)
elseif is_tenure_of(tenure, owner) then
    redis.call('SET', TENURE, string.sub(tenure, 1, 32) .. '!' ..
        string.sub(tenure, 34), 'KEEPTTL')
else -- a JVM contender renews by its id alone; no id ends in @
    redis.call('SET', LEASE, 'broken@', 'XX', 'KEEPTTL')
end
return reply

-- name: notes
-- What is noted of a mutex, in a hash that has the place of the tombstone: what
-- its owners tell about themselves, by token, with until when in front, in ms;
-- or its breaks, by time in us.
--
-- ARGV: letters, the mutex, which is replied; tell, told or breaks; and to tell
-- a token, for how many ms, and the text, '' to forget it.
local NOTES, verb = TOMBSTONE, ARGV[3]
local now, last, notes = math.floor(clock_us() / 1000), 0, {}

if verb == 'tell' and ARGV[6] ~= '' then
    redis.call('HSET', NOTES, ARGV[4],
        string.format('%.0f ', now + ARGV[5]) .. ARGV[6])
elseif verb == 'tell' then
    redis.call('HDEL', NOTES, ARGV[4])
end
local found = redis.call('HGETALL', NOTES)
for i = 1, #found, 2 do
    local ends, text = string.match(found[i + 1], '^(%d+) (.*)$')
    if verb == 'breaks' then
        local is_read, note = pcall(cjson.decode, found[i + 1])
        if is_read and type(note) == 'table' then
            for _, word in ipairs({found[i],
                string.format('%.0f', tonumber(note.token) or 0),
                tostring(note.id), note.now == true and '1' or '0',
                tostring(note.reason)}) do
                notes[#notes + 1] = word
            end
        end
    elseif ends and tonumber(ends) >= now then
        last = math.max(last, tonumber(ends))
        if verb == 'told' then
            notes[#notes + 1] = found[i]
            notes[#notes + 1] = text
        end
    elseif verb == 'tell' then
        redis.call('HDEL', NOTES, found[i])
    end
end
if verb == 'tell' and last > 0 then
    redis.call('PEXPIRE', NOTES, string.format('%.0f', last - now + 1))
end
return {ARGV[2], notes}

-- name: doctor
-- May we do what contenders do? Tries every command of the other scripts on a
-- key of its own, which no mutex has, and leaves nothing.
--
-- KEYS: that key. Replies the names of those that were refused, and what was
-- said of the first.
local KEY = KEYS[1]
local refused, reason = {}, ''

local function try(...)
    local reply = redis.pcall(...)
    if type(reply) == 'table' and reply.err then
        if #refused == 0 then
            reason = reply.err
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
try('HMGET', KEY, 'a')
try('HGETALL', KEY)
try('HLEN', KEY)
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
