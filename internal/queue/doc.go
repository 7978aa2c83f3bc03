// Package queue holds the keys of the parents that want a sync, and why.
//
// One Queue serves one controller program. Its keys are handed to workers one
// at a time per key, the important ones first, fairly across namespaces; a key
// that failed comes back after a growing delay. Everything a key was added for
// travels with it, so that whoever syncs it can say what woke it.
//
// What lives here: the order of work, delays and backoff, the dictionary of
// causes ([CauseKind]) and what follows from each. What must not: anything that
// knows an object, a hook, the API server, or what a sync does.
//
// Callers: store events, resync timers and the inspector add keys; the workers
// of engine, react and host take them with [Queue.Work], which is [Queue.Next] and
// then [Queue.Done]; the host reads [Queue.Stats].
//
// # Promises
//
//   - No two workers hold the same key. A key added while a worker holds it
//     comes back after Done, with the causes gathered meanwhile.
//   - Every Add is followed by a Next of that key, unless the key is forgotten
//     while it is waiting in backoff or the queue is closed.
//   - User edits go before events, events before retries, retries before
//     resyncs and start-up; a stronger cause promotes a key that is queued. Every
//     eighth pick goes to the lower priorities in turn, so that none starves.
//   - Within a priority, namespaces take turns and keys keep their order.
//   - An Add leaves the timer set by AddAfter alone; of several AddAfter the
//     earliest stands, with its cause.
//
// # Backoff
//
// A key that waits in backoff reacts to a new cause by what the cause says:
// an edit forgets the failures and runs at once, because the input is another
// one; an event brings the retry forward, yet not closer than
// [Options.EventDelay] to the failure, so that a sync which fails and causes
// events cannot spin; a resync says nothing new and joins the retry.
package queue
