package controlplane

import "sync"

// reporter tells one listener about phases, one call at a time.
type reporter struct {
	mu    sync.Mutex
	begin func(phase string) (done func(error))
}

func (r *reporter) phase(name string, do func() error) error {
	r.mu.Lock()
	done := r.begin(name)
	r.mu.Unlock()

	err := do()

	r.mu.Lock()
	defer r.mu.Unlock()
	done(err)
	return err
}

// phases runs several at once. Of the failures, the first is returned: the others
// follow from it.
func (r *reporter) phases(all map[string]func() error) error {
	failures := make(chan error, len(all))
	var wait sync.WaitGroup
	for name, do := range all {
		wait.Go(func() {
			if err := r.phase(name, do); err != nil {
				failures <- err
			}
		})
	}
	wait.Wait()
	close(failures)
	return <-failures
}
