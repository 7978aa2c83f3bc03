package queue

// Key names a parent. Namespace is empty for a cluster-scoped one.
//
// The queue keeps keys for as long as something is pending: their strings must
// not be slices of a larger buffer, or they keep that alive too.
type Key struct{ Namespace, Name string }

// String returns namespace/name, or the name alone.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}
