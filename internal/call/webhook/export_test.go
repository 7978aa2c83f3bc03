package webhook

// CacheSize returns the number of cached responses and their size.
func (w *Transport) CacheSize() (n int, size int64) {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	return len(w.cache.entries), w.cache.size
}
