package trace

import (
	"slices"
	"sync"

	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/utils/lru"
)

// maxWrites is how many writes a process remembers: more than one large object has children. It is about 5 MiB.
const maxWrites = 16384

// Object names an object. The group is left out: it is compared together with a resource version.
type Object struct{ Kind, Namespace, Name string }

// write is one write of this process.
type write struct {
	object Object
	span   oteltrace.SpanContext
	// by is the UID of the object whose reconcile wrote, and depth that of the reconcile in its trace.
	by    string
	depth int
}

// writes remembers which span wrote which version of an object, so that the reconcile which the version brings about
// finds its cause. Objects in the cluster stay as they are.
type writes struct {
	mu sync.Mutex
	// byStored has the write of each version.
	byStored *lru.Cache
	// inFlight are the writes without a response. The watch may deliver their results first.
	inFlight map[Object][]*write
}

func (w *writes) begin(one *write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight[one.object] = append(w.inFlight[one.object], one)
}

// end ends a write. The version is that of the result; 0 if the write failed.
func (w *writes) end(one *write, version uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := slices.DeleteFunc(w.inFlight[one.object], func(other *write) bool { return other == one })
	if w.inFlight[one.object] = rest; len(rest) == 0 {
		delete(w.inFlight, one.object)
	}
	if _, known := w.byStored.Get(version); version != 0 && !known { // A write that changes nothing returns the version that it found.
		w.byStored.Add(version, one)
	}
}

// find returns the write that stored a version of an object. Of a version that it does not know, it returns the
// latest write in flight: the event was faster than the response. In that short time the version may be of another client.
func (w *writes) find(o Object, version uint64) (write, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stored, _ := w.byStored.Get(version)
	if one, found := stored.(*write); found && one.object == o {
		return *one, true
	}
	if open := w.inFlight[o]; len(open) > 0 {
		return *open[len(open)-1], true
	}
	return write{}, false
}
