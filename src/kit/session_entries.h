/* What session_store.c keeps its mutexes and entries by. Inside the loop. */
#ifndef SIMBA_KIT_SESSION_ENTRIES_H
#define SIMBA_KIT_SESSION_ENTRIES_H

#include <simba/sys/session_store.h>

/** The entry of this attempt; NULL: there is none. */
simba_entry *simba__session_find(const simba_session_store *self,
                                 const simba_request *request);
/** The same, made if it is not there; NULL: no memory. */
simba_entry *simba__session_entry(simba_session_store *self,
                                  const simba_request *request);
void simba__session_forget(simba_entry *entry);
/** Let an entry or a mutex know of this owner, or of none, and no longer of
 * another. */
void simba__session_tell(simba_told_owner **whom, simba_told_owner *owner);

/** Of an entry or a store: nobody awaits it any more. */
void simba__session_cancel(simba_exchange **exchange);

/** It has got a position: there it stands now. */
void simba__session_place(simba_entry *entry);
/** Who of a mutex's entries is sought: those who come for a key, those in the
 * queue, those who lost one that they watched. */
enum simba__sought {
    SIMBA__ENTRY_COMING,
    SIMBA__ENTRY_QUEUED,
    SIMBA__ENTRY_UNWATCHED,
    SIMBA__ENTRIES_SOUGHT
};
/** The first of them; NULL: there is none. */
simba_entry *simba__session_first(simba_session_mutex *mutex,
                                  enum simba__sought sought);
/** Nobody of them has a key any more: they come again as they stand. */
void simba__session_displace(simba_session_mutex *mutex);

/** Has it asked for a position, and has no key yet? */
bool simba__session_is_coming(const simba_entry *entry);
/** It asks: if it comes for a key, it does so now, whenever there is a session.
 */
void simba__session_come(simba_entry *entry);
/** Must it wait with its put for one of this process that came before? */
bool simba__session_has_to_let_come(simba_entry *entry);
/** Can those who come put their keys side by side? */
bool simba__session_come_together(const simba_session_mutex *mutex);

/** Is it in the queue, and told when the one before it goes? */
bool simba__session_is_waiting(const simba_entry *entry);
/** Does one of this process wait before it, so that no wake-up is for it but
 * that the one it watches has gone? */
bool simba__session_is_behind_ours(const simba_entry *entry);

/** A wake-up makes only the foremost of this process look. Who stands behind
 * them and lost one that it watched is woken when they have left, or own it. */
void simba__session_wake_next(simba_session_mutex *mutex);

/** Call this for all entries of a mutex, or with NULL of all mutexes. */
void simba__session_each(simba_session_store *self,
                         simba_session_mutex *mutex,
                         void (*each)(simba_entry *entry));

/** Attempts that this process has undone itself. */
bool simba__session_is_entombed(simba_session_store *self,
                                simba_attempt attempt);
void simba__session_entomb(simba_session_store *self,
                           const simba_request *request);

/** Frees the table of mutexes, which is empty, and the tombstones. */
void simba__session_entries_fini(simba_session_store *self);

#endif
