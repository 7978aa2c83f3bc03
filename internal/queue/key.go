package queue

// Key identifies a parent. Namespace is empty for cluster-scoped kinds.
//
// The queue keeps keys while something is pending, so their strings must not be slices of a larger
// buffer.
type Key struct{ Namespace, Name string }

// String returns namespace/name, or only the name.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}
