-- Several owners of one mutex, and handing over: the rules of
-- core/mutex_model.c in full. Requests with slots come here, and all others
-- while several own the mutex; what is exclusive costs nothing more.
--
-- While some own it by slots the lease is that of CROWD, until the last of their
-- leases ends. Who knows of one owner only sees that one: its tenure is
-- nobody's, has the longest of their leases and counts the renewals of all.
--
-- ARGV has what the script acquire has, '' where there is none, then: ':' and the
-- slots if there are several, the verb, tombstone ms, a token (release: of the grant that
-- is taken back, or 0), the successor or '', 1 to break at once, why.
-- The reply is as that of acquire, then a list: slot and slots of the owner, how
-- many own it, the least of their limits, and who is to get it or ''. A release
-- replies with whether a tenure was ended, and who is to get it.

-- name: crowd_begin
-- Before what it shares with the script acquire.
local verb = ARGV[11]
if verb ~= 'acquire' then
    is_awaited = false -- of no interest yet
end

-- name: members
-- OWNERS has of each who owns the mutex by slots: attempt -> end ms, token, "<"
-- and the token before (then a "!" if it was broken), acquired ms, transition ms,
-- lease ms, renewals, slot, slots, id; after a NUL whom it is asked to hand over
-- to.
local OWNERS = KEYS[10]

-- What is asked of all of them; there may be thousands.
local function look_at_member(attempt, text)
    local ends, token, lease, slot, slots = string.match(text,
        '^(%d+) (%d+)<%d*[ !]%d+ %d+ (%d+) %d+ (%d+) (%d+) ')
    return {attempt = attempt, text = text, ends = tonumber(ends),
        token = token, lease = tonumber(lease), slot = tonumber(slot),
        slots = tonumber(slots)}
end

-- And of one of them.
local function read_member(m)
    if m.text then
        m.former, m.mark, m.acquired, m.transition, m.renewals, m.id, m.asked =
            string.match(m.text, '^%d+ %d+<(%d*)([ !])(%d+) (%d+) %d+ ' ..
                '(%d+) %d+ %d+ (%Z*)%z(.*)$')
        m.text = nil
    end
    return m
end

local function write_member(m)
    redis.call('HSET', OWNERS, m.attempt, string.format(
        '%.0f %s<%s%s%s %s %.0f %s %.0f %.0f ', m.ends, m.token, m.former,
        m.mark, m.acquired, m.transition, m.lease, m.renewals, m.slot,
        m.slots) .. m.id .. NUL .. m.asked)
end

-- As a tenure of one owner is written down.
local function tenure_of(m)
    read_member(m)
    return m.attempt .. m.mark .. m.token .. '<' .. m.former .. ' ' ..
        m.acquired .. ' ' .. m.transition .. ' ' .. m.id .. NUL ..
        string.format('%.0f ', m.lease) .. m.renewals ..
        (m.asked == '' and '' or ' ' .. m.asked)
end

local function is_older(a, b)
    return #a.token < #b.token or #a.token == #b.token and a.token < b.token
end

local function put_oldest_first(members)
    for i = 2, #members do
        if is_older(members[i], members[1]) then
            members[1], members[i] = members[i], members[1]
        end
    end
end

-- Those whose leases run, the oldest first, and the attempts of the others. No
-- lease ends later than its length from now: the clock has gone back if one
-- would.
local function find_members(now_ms)
    local all = redis.call('HGETALL', OWNERS)
    local members, ended = {}, {}
    for i = 1, #all, 2 do
        local m = look_at_member(all[i], all[i + 1])
        if m.ends < now_ms then
            ended[#ended + 1] = m.attempt
        else
            members[#members + 1] = m
            m.is_too_late = m.ends > now_ms + m.lease
            m.ends = math.min(m.ends, now_ms + m.lease)
        end
    end
    put_oldest_first(members)
    return members, ended
end

-- Of one who waits. A JVM contender has none: it wants the mutex alone.
local function slots_of(waiter)
    local known = redis.call('HGET', ATTEMPTS, waiter)
    return tonumber(string.match(known or '', ':(%d+)$')) or 0
end

local function least_slots(members)
    local least = members[1] and members[1].slots or 0
    for _, m in ipairs(members) do
        least = math.min(least, m.slots)
    end
    return least
end

-- KEYS[4] of a break is the record of breaks, a hash: time in us -> which tenure
-- was ended and why, as JSON.
local function note_break(now_us, id, token, is_now, why)
    redis.call('HSET', TOMBSTONE, string.format('%.0f', now_us), string.format(
        '{"token":%s,"id":%s,"now":%s,"reason":%s}', token, cjson.encode(id),
        tostring(is_now), cjson.encode(why)))
end

-- name: crowd
-- What is there, as the one who asks sees it.
local slots = tonumber(string.sub(ARGV[10], 2)) or 0
local members, mine = {}, false -- the tenure of who asks; or that is meant
local is_offered = false        -- to who asks
local to = ''

-- All others who own it or are offered it.
local others = {count = 0, limit = math.huge, first_end = math.huge}

local function count_in(of_slots, ends)
    others.count = others.count + 1
    others.limit = math.min(others.limit, math.max(of_slots, 1))
    others.first_end = math.min(others.first_end, ends)
end

local function has_room(for_slots)
    return others.count < math.min(others.limit, math.max(for_slots, 1))
end

local function token_and_former()
    return string.match(tenure or '', '^%x+[ !](%d+)<?(%d*)')
end

-- The one owner there is, without slots.
local function lone_owner()
    local left_ms = redis.call('PTTL', LEASE)
    local m = {id = owner, slot = 0, slots = 0, attempt = '', is_alone = true,
        mark = ' ', token = redis.call('GET', TOKEN) or '0', asked = '',
        ends = left_ms < 0 and math.huge or now_ms + left_ms}
    if is_tenure_of(tenure, owner) then
        m.attempt, m.mark = string.match(tenure, '^(%x+)([ !])')
        m.token = token_and_former()
        m.lease, m.renewals, m.asked =
            string.match(tenure, '%z(%d+) (%d+) ?(.*)$')
        m.asked = m.asked or ''
    end
    return m
end

-- What others see of several owners, while there are some.
local function write_crowd(token, former)
    local last, lease, last_end = members[1], 0, 0
    if not last then
        redis.call('DEL', LEASE, TOKEN, TENURE, OWNERS)
        owner, tenure = false, false
        return
    end
    for _, m in ipairs(members) do
        lease = math.max(lease, m.lease)
        if m.ends > last_end then
            last, last_end = m, m.ends
        end
    end
    if not token then
        token, former = token_and_former()
    end
    read_member(members[1])
    read_member(last)
    local left_ms = math.max(last_end - now_ms, 1)
    local renewals = owner == CROWD and renewals_of(tenure) or 0
    tenure = string.rep('0', 32) .. ' ' .. token .. '<' .. former .. ' ' ..
        members[1].acquired .. ' ' .. last.transition .. ' ' .. CROWD .. NUL ..
        string.format('%.0f %.0f', lease, renewals + 1)
    owner = CROWD
    redis.call('SET', LEASE, CROWD, 'PX', left_ms)
    redis.call('SET', TOKEN, token, 'PX', left_ms)
    redis.call('SET', TENURE, tenure, 'PX', left_ms)
    redis.call('PEXPIRE', OWNERS, left_ms)
end

local function find_owners()
    local ended = {}
    if owner == CROWD then
        members, ended = find_members(now_ms)
    elseif owner then
        members[1] = lone_owner()
    end
    local has_changed = #ended > 0
    for _, one in ipairs(ended) do
        redis.call('HDEL', OWNERS, one)
    end
    for _, m in ipairs(members) do
        if m.is_too_late then
            write_member(read_member(m))
            has_changed = true
        end
    end
    if has_changed or owner == CROWD and not members[1] then
        write_crowd()
    end
    for _, m in ipairs(members) do
        local is_meant = m.attempt == attempt
        if verb == 'break' or verb == 'hand_over' then
            is_meant = m.token == ARGV[13] or
                verb == 'hand_over' and ARGV[13] == '0'
        end
        if is_meant and not mine then
            mine = read_member(m)
        else
            count_in(m.slots, m.ends)
        end
    end
end

local function find_offer()
    is_offered = offered == id and is_queued
    if offered == JVM and owner then -- nobody is let in until all have left
        count_in(0, now_ms + redis.call('PTTL', NEXT))
    elseif offered and not is_offered then
        local left_ms = redis.call('PTTL', NEXT)
        if left_ms > JVM_OFFER_MOST_MS then -- the clock went back
            left_ms = OFFER_MS
            redis.call('PEXPIRE', NEXT, OFFER_MS)
        end
        count_in(slots_of(offered), now_ms + left_ms)
    end
end

-- name: crowd_offer
-- S10: what is free is offered to the successor that was named, if it waits and
-- lives and there is room for it, or to the first. The next is notified as well.
-- JVM contenders without a position would never find it free while one of ours
-- comes before another goes. When it is their time nobody is let in, for as long
-- as a lease at most; where none is seen, for a sixteenth of it.
local function is_kept_for_jvm()
    local is_time, is_seen = false, false
    if owner == CROWD then
        is_time, is_seen = is_left_to_jvm(now_ms, 1)
    end
    if redis.call('PTTL', ATTEMPTS) == -1 then -- without waiters of ours
        redis.call('PEXPIRE', ATTEMPTS, 60000)
    end
    if is_time then
        local lease = tonumber(string.match(tenure, '%z(%d+)'))
        redis.call('SET', NEXT, JVM, 'PX', string.format('%.0f',
            math.max(is_seen and lease or lease / 16, 1)))
        offered = JVM
    end
    return is_time
end

-- All have left: it is theirs for a moment.
local function leave_to_jvm(message)
    local live = find_live(now_ms, 2)
    redis.call('SET', NEXT, JVM, 'PX', PAUSE_MS)
    redis.call('PUBLISH', LEASE, message)
    for i = 1, #live do
        redis.call('PUBLISH', channel_of(live[i]), message)
    end
end

local function offer(named)
    local by = id == '' and mine.id or id
    local message = 'released@@' .. by
    if is_offered then
        end_offer()
        offered, is_offered = false, false
    elseif offered then -- one at a time: who takes it offers what is left on
        if offered == JVM and not owner and mine then
            leave_to_jvm(message)
        elseif mine or verb == 'release' then -- who is the first now knows when
            local live = find_live(now_ms, 1)
            if live[1] then
                redis.call('PUBLISH', channel_of(live[1]), message)
            end
        end
        return
    end
    local live, _, jvm, _, lapses = find_live(now_ms, 2)
    local first, second = jvm or live[1], live[2]
    if named and named ~= '' and named ~= first and
        is_waiting(named, now_ms) and
        has_room(slots_of(named)) then
        first, second = named, live[1]
    elseif others.count == 0 then
        offer_next(now_ms, by, not (mine and verb == 'release'))
        offered = redis.call('GET', NEXT)
        to = offered and offered ~= JVM and offered or ''
        return
    elseif not first or not has_room(slots_of(first)) or
        is_kept_for_jvm() then
        return
    end
    hand_to(first, second, lapses, by)
    offered, to = first, first
end

-- What the reply says of an owner, and of all.
local function tell(is_mine, m, reply)
    m = m and read_member(m) or {id = '', token = '', ends = now_ms, slot = 0, slots = 0}
    reply = reply or {is_mine, now_us, '', '', 0, '', 0, 0, 0, 0}
    reply[3], reply[6] = m.id, m.token
    reply[4] = m.is_alone and tenure or m.lease and tenure_of(m) or ''
    reply[5] = m.ends == math.huge and -1 or m.ends - now_ms
    reply[10] = reply[10] or 0 -- of a grant: a reply ends at its first hole
    reply[11] = {m.slot, m.slots, #members, least_slots(members), to}
    return reply
end

-- name: crowd_claim
-- Acquire.
local do_verb = {}
local LOOK_AGAIN_MS = 2000

local function extend_mine()
    local is_wider = math.max(slots, 1) > math.max(mine.slots, 1)
    if mine.is_alone and not is_wider then
        tenure = extend(tenure, lease_ms)
        mine.ends = now_ms + lease_ms
        return tell(1, mine)
    end
    if mine.is_alone then -- lets others in from now on
        redis.call('DEL', OWNERS)
        mine.former, mine.acquired =
            string.match(tenure, '^%x+ %d+<?(%d*) (%d+)')
        mine.is_alone, mine.renewals = nil, mine.renewals or 0
    end
    mine.ends, mine.lease = now_ms + lease_ms, tonumber(lease_ms)
    mine.transition = ARGV[5]
    mine.renewals = string.format('%.0f', mine.renewals + 1)
    mine.slots = is_wider and slots or mine.slots
    write_member(mine)
    write_crowd()
    if is_wider then
        find_offer()
        count_in(mine.slots, mine.ends)
        offer()
    end
    return tell(1, mine)
end

local function grant_slot()
    local token, former, slot, is_taken = nil, nil, 0, {}
    if slots <= 1 then
        local reply = grant_waiter()
        owner = id
        members[1] = lone_owner()
        return tell(1, members[1], reply)
    end
    redis.call('PUBLISH', LEASE, 'acquired@@' .. id) -- first: may be denied
    token, former = next_token(now_us, ARGV[8])
    for _, m in ipairs(members) do
        is_taken[m.slot] = true
    end
    while is_taken[slot] do
        slot = slot + 1
    end
    if not members[1] then -- of a crowd that others have ended
        redis.call('DEL', OWNERS)
    end
    mine = {attempt = attempt, ends = now_ms + lease_ms, token = token,
        mark = ' ', acquired = string.format('%.0f', now_ms),
        transition = ARGV[5], lease = tonumber(lease_ms), renewals = '0',
        slot = slot, slots = slots, id = id, asked = '', former = former}
    members[#members + 1] = mine
    write_member(mine)
    write_crowd(token, former)
    if is_queued then
        forget(id)
    end
    count_in(slots, mine.ends)
    offer() -- where slots are left, each grant offers one
    to = ''
    return tell(1, mine)
end

function do_verb.acquire()
    local wait_ms, is_first, is_passing = 0, false, true
    if found[4] then -- undone before it came
        return tell(0, members[1])
    end
    if mine and mine.mark == ' ' then
        return extend_mine()
    end
    if not is_offered and redis.call('EXISTS', QUEUE, WAITERS) > 0 then
        local live, _, jvm = find_live(now_ms, 1, is_queued and id or nil)
        is_first = not jvm and live[1] == id
        is_passing = not jvm and (not live[1] or is_first)
    end
    if mine then -- broken: to its end
        wait_ms = mine.ends - now_ms
        if mine.slots > 1 then
            local reply = tell(0, mine)
            reply[9] = wait_ms
            return reply
        end
    elseif not has_room(slots) then
        wait_ms = others.first_end - now_ms
        if not is_first then -- who stands before me may fit where I do not
            offer()
        end
    elseif is_passing and (is_offered or not is_kept_for_jvm()) then
        return grant_slot()
    elseif is_passing then -- kept for JVM contenders from now on
        wait_ms = math.min(others.first_end - now_ms, redis.call('PTTL', NEXT))
    else -- who waits before me and does not fit may die, and nobody is told
        offer()
        wait_ms = offered and redis.call('PTTL', NEXT) or
            math.min(others.first_end - now_ms, LOOK_AGAIN_MS)
    end
    if is_offered then
        end_offer()
    end
    to = ''
    local shown = mine or members[1]
    local reply = tell(0, shown, refuse(wait_ms == math.huge and -1 or wait_ms))
    if shown and not shown.is_alone then -- its end is seen to here
        reply[4] = string.match(reply[4], '^%Z*')
    end
    return reply
end

-- name: crowd_renew
-- Where there are many, one alone is renewed: how many own it is then told as of
-- when somebody last asked for it, and the least of their limits as its own.
local MANY = 32

local function renew_one()
    local count = redis.call('HLEN', OWNERS)
    local text = count > MANY and redis.call('HGET', OWNERS, attempt)
    local m = text and read_member(look_at_member(attempt, text))
    if not m or m.ends < now_ms or m.mark ~= ' ' or slots > m.slots then
        return
    end
    local lease, renewals = string.match(tenure or '', '%z(%d+) (%d+)')
    if not lease then
        return
    end
    lease = math.max(lease, lease_ms)
    local left_ms = math.max(
        math.min(redis.call('PTTL', LEASE), lease), lease_ms)
    m.ends, m.lease, m.transition = now_ms + lease_ms, tonumber(lease_ms), ARGV[5]
    m.renewals = string.format('%.0f', m.renewals + 1)
    write_member(m)
    redis.call('SET', TENURE, string.match(tenure, '^%Z*') .. NUL ..
        string.format('%.0f %.0f', lease, renewals + 1), 'PX', left_ms)
    redis.call('PEXPIRE', LEASE, left_ms)
    redis.call('PEXPIRE', TOKEN, left_ms)
    redis.call('PEXPIRE', OWNERS, left_ms)
    return {1, now_us, id, tenure_of(m), tonumber(lease_ms), m.token,
        0, 0, 0, 0, {m.slot, m.slots, count, m.slots, ''}}
end

function do_verb.renew()
    if mine and mine.mark == ' ' then
        return extend_mine()
    end
    return tell(0, mine or members[1])
end

-- name: crowd_end
-- Release, hand-over and break.
local function end_mine()
    for i, m in ipairs(members) do
        if m == mine then
            table.remove(members, i)
            break
        end
    end
    put_oldest_first(members)
    if mine.is_alone then
        redis.call('DEL', LEASE, TOKEN, TENURE)
        owner = false
    else
        redis.call('HDEL', OWNERS, mine.attempt)
        write_crowd()
    end
    if members[1] then -- else offer() announces it
        redis.call('PUBLISH', LEASE, 'released@@' .. mine.id)
    end
end

function do_verb.release()
    if mine and ARGV[13] ~= '0' and
        (mine.token ~= ARGV[13] or mine.renewals ~= '0') then
        return {0, ''} -- only the grant itself is taken back
    end
    if ARGV[12] ~= '0' then
        redis.call('SET', TOMBSTONE, '1', 'PX', ARGV[12])
    end
    if mine then
        end_mine()
    end
    if is_queued then
        forget(id)
    end
    if mine or is_offered or
        is_queued and others.count > 0 and others.limit > 1 then
        offer(ARGV[14])
    end
    return {mine and 1 or 0, to}
end

function do_verb.hand_over()
    local successor = ARGV[14]
    if not mine or not mine.lease then
        return tell(0, mine or members[1])
    end
    if successor ~= '' then
        successor = is_waiting(successor, now_ms) and successor
    else
        local live, _, jvm = find_live(now_ms, 1)
        successor = jvm or live[1]
    end
    if successor and has_room(slots_of(successor)) and mine.mark == ' ' then
        mine.asked = ARGV[14] == '' and '@' or ARGV[14]
        if mine.is_alone then
            tenure = string.match(tenure, '^%Z*') .. NUL .. mine.lease .. ' ' ..
                mine.renewals .. ' ' .. mine.asked
            redis.call('SET', TENURE, tenure, 'KEEPTTL')
        else
            write_member(mine)
        end
        redis.call('PUBLISH', channel_of(mine.id), 'asked@@' .. mine.asked)
        to = successor
    end
    return tell(1, mine)
end

do_verb['break'] = function()
    if not mine then
        return tell(0, members[1])
    end
    note_break(now_us, mine.id, mine.token, ARGV[15] == '1', ARGV[16])
    if ARGV[15] == '1' then
        end_mine()
        offer()
        return tell(1, members[1])
    end
    mine.mark = '!'
    write_member(mine)
    return tell(1, mine)
end

if verb ~= 'acquire' then
    is_queued = verb == 'release' and string.sub(
        redis.call('HGET', ATTEMPTS, id) or '', 1, 32) == attempt
    requeue_missing(now_us,
        not offered and redis.call('HGET', ATTEMPTS, OFFERED))
end
local renewed = verb == 'renew' and owner == CROWD and renew_one()
if renewed then
    return renewed
end
find_owners()
find_offer()
return do_verb[verb]()
