package loop

import (
	"sync"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
)

// Programs are the compiled controllers of a process. An Item names one by its index: first the
// programs of Compose, then those of Handle.
type Programs struct {
	Compose []composite.Program
	Handle  []handler.Program
	// Indexes fill what functions in Go read in memory by watches of a cache, until end is called.
	Indexes []func(from *cache.Cache) (end func(), err error)
	// Memory is held by the one process that runs, if the functions share memory such as indexes; nil if they do not.
	Memory *sync.Mutex
}

// byName returns the hooks of the programs, by their names in a Memo.
func (p *Programs) byName() map[string]any {
	all := map[string]any{}
	for i := range p.Compose {
		one := &p.Compose[i]
		all[one.Name+" sync"], all[one.Name+" finalize"], all[one.Name+" customize"] = one.Sync, one.Finalize, one.Customize
	}
	for i := range p.Handle {
		for _, h := range p.Handle[i].Handlers {
			all[p.Handle[i].Name+" "+h.Name] = h.Do
		}
	}
	return all
}
