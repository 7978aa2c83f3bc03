// Package queue is the work queue of a controller. It holds the keys of objects to reconcile and
// the causes.
//
// One Queue serves one program. It hands a key to one worker at a time, urgent keys first, fairly
// across namespaces. A key that failed is retried after a growing delay. The causes of a key go
// with it, so that each reconcile knows its triggers.
//
// The package knows the order of work, delays, backoff and causes ([CauseKind]). It does not know
// objects, hooks, the API server or what a reconcile does.
//
// Event handlers, resync timers and the dashboard add keys. The workers of the controllers and the
// manager take them with [Queue.Work], which is [Queue.Next] and then [Queue.Done]. The manager
// exports [Queue.Stats].
//
// # Guarantees
//
//   - No two workers have the same key. A key that is added while a worker has it comes back after
//     Done, with the new causes.
//   - Every Add is followed by a Next of that key, unless the key is forgotten in backoff or the queue
//     is closed.
//   - User edits go before events, events before retries, timers and initial lists, and those before
//     resyncs. A more urgent cause promotes a queued key. Every eighth pick goes to the lower
//     priorities in turn, so that none starves.
//   - Within a priority, namespaces take turns and keys keep their order.
//   - An Add does not change the timer of AddAfter. Of several AddAfter the earliest counts.
//
// # Backoff
//
// The kind of a cause decides what it does to a key in backoff. An edit resets the failures and
// runs at once, because the input is new. An event moves the retry forward, but not closer than
// [Options.EventDelay] to the failure, so that a failing reconcile that causes events does not
// spin. A resync joins the retry.
package queue
