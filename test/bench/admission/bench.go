package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/stats"
)

// bench measures all contenders on one control plane.
type bench struct {
	options    options
	dir        string
	kubeconfig string
	client     *cluster.Client
	// figures are what was measured, by contender, each round one.
	figures map[string][]measurements
}

// measurements are those of one turn, in milliseconds; perSecond is what many clients got
// done together.
type measurements struct{ single50, single99, crowd50, crowd99, perSecond float64 }

func newBench(o options, dir, kubeconfig string) (*bench, error) {
	client, err := cluster.Connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	return &bench{options: o, dir: dir, kubeconfig: kubeconfig, client: client, figures: map[string][]measurements{}}, nil
}

func (b *bench) run(ctx context.Context) error {
	for round := range b.options.rounds {
		all := contenders()
		if round%2 == 1 {
			slices.Reverse(all)
		}
		for _, c := range all {
			fmt.Fprintf(os.Stderr, "round %d: %s\n", round+1, c.name)
			turn, err := b.measure(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			b.figures[c.name] = append(b.figures[c.name], turn)
		}
	}
	return nil
}

// measure measures one contender, alone.
func (b *bench) measure(ctx context.Context, c contender) (f measurements, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.options.timeout)
	defer cancel()
	stop, err := c.start(ctx, b)
	if err != nil {
		return f, err
	}
	defer func() {
		err = errors.Join(err, stop())
		if err == nil {
			err = b.until(ctx, false)
		}
	}()
	if err := b.until(ctx, c.name != "no webhook"); err != nil {
		return f, err
	}
	if _, err := b.create(ctx, b.options.crowd/4, b.options.clients); err != nil {
		return f, err
	}
	single, err := b.create(ctx, b.options.single, 1)
	if err != nil {
		return f, err
	}
	since := time.Now()
	crowd, err := b.create(ctx, b.options.crowd, b.options.clients)
	took := time.Since(since)
	at := func(all []time.Duration, p float64) float64 { return stats.Millis(stats.Percentile(all, p)) }
	return measurements{at(single, 50), at(single, 99), at(crowd, 50), at(crowd, 99), float64(b.options.crowd) / took.Seconds()}, err
}

// until waits until pods are changed, or are not any more.
func (b *bench) until(ctx context.Context, changed bool) error {
	var last error
	err := cluster.Poll(ctx, fmt.Sprintf("pods to be changed: %v", changed), func() (bool, error) {
		var pod []byte
		pod, last = b.client.DryRun(ctx, pods, []byte(pod1))
		return last == nil && isChanged(pod) == changed, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

const (
	pods = "/api/v1/namespaces/default/pods"
	pod1 = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"bench-","labels":{"app":"bench","tier":"web"}},` +
		`"spec":{"containers":[{"name":"web","image":"registry.example/web:1","ports":[{"containerPort":8080}],` +
		`"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}]}}`
)

func isChanged(pod []byte) bool {
	return bytes.Contains(pod, []byte(`"name":"`+sidecarName+`"`))
}

// create creates so many pods by so many clients, and says how long each took.
func (b *bench) create(ctx context.Context, count, clients int) ([]time.Duration, error) {
	took := make([]time.Duration, count)
	var next atomic.Int64
	var all sync.WaitGroup
	failures := make(chan error, clients)
	for range clients {
		all.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= count {
					return
				}
				since := time.Now()
				if _, err := b.client.DryRun(ctx, pods, []byte(pod1)); err != nil {
					failures <- err
					return
				}
				took[n] = time.Since(since)
			}
		})
	}
	all.Wait()
	close(failures)
	return took, <-failures
}

// report shows medians of the rounds. A ratio is made within a round.
func (b *bench) report(w io.Writer) error {
	fmt.Fprintf(w, "| who changes pods | 1 client: p50 | × | p99 | %d clients: p50 | × | p99 | pods/s "+
		"|\n|---|---|---|---|---|---|---|---|\n", b.options.clients)
	for _, c := range contenders() {
		median := func(of func(measurements) float64) float64 {
			var all []float64
			for _, f := range b.figures[c.name] {
				all = append(all, of(f))
			}
			return stats.Median(all)
		}
		ratio := func(of func(measurements) float64) float64 {
			var all []float64
			for i, f := range b.figures[c.name] {
				all = append(all, of(f)/of(b.figures[baseline][i]))
			}
			return stats.Median(all)
		}
		single50, crowd50 := func(f measurements) float64 { return f.single50 }, func(f measurements) float64 { return f.crowd50 }
		_, err := fmt.Fprintf(w, "| %s | %.2f ms | %.2f | %.2f ms | %.1f ms | %.2f | %.1f ms | %.0f |\n", c.name,
			median(single50), ratio(single50), median(func(f measurements) float64 { return f.single99 }),
			median(crowd50), ratio(crowd50), median(func(f measurements) float64 { return f.crowd99 }),
			median(func(f measurements) float64 { return f.perSecond }))
		if err != nil {
			return err
		}
	}
	return nil
}
