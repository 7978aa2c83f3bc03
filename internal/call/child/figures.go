package child

import (
	"time"
)

// Figures are those of the children of one controller.
type Figures struct {
	// Processes is how many run now, and MemoryBytes the memory that they share with no other process.
	Processes   int
	MemoryBytes int64
	// Starts counts children from the beginning, and CPU their processor time.
	Starts int
	CPU    time.Duration
}

func (f Figures) plus(g Figures) Figures {
	return Figures{f.Processes + g.Processes, f.MemoryBytes + g.MemoryBytes, f.Starts + g.Starts, f.CPU + g.CPU}
}

// Figures returns the figures by controller. Those of pools that were closed are counted as long as
// the controller has another.
func (l *Limiter) Figures() map[string]Figures {
	all := map[string]Figures{}
	for _, p := range l.all() {
		all[p.config.Controller] = all[p.config.Controller].plus(p.figures())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for controller := range all {
		all[controller] = all[controller].plus(l.past[controller])
	}
	return all
}

// FiguresOf returns the figures of several limiters.
func FiguresOf(limiters ...*Limiter) map[string]Figures {
	all := map[string]Figures{}
	for _, l := range limiters {
		for controller, figures := range l.Figures() {
			all[controller] = all[controller].plus(figures)
		}
	}
	return all
}

func (p *Pool) figures() Figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := Figures{Processes: len(p.live), Starts: p.starts, CPU: p.cpu}
	for one := range p.live {
		memory, cpu := usage(one.run.PID())
		f.MemoryBytes += memory
		f.CPU += cpu
	}
	return f
}
