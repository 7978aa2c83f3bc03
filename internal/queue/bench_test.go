package queue_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

func benchKeys(n int) []queue.Key {
	keys := make([]queue.Key, n)
	for i := range keys {
		keys[i] = key(fmt.Sprintf("namespace-%d", i%10), fmt.Sprintf("parent-%d", i))
	}
	return keys
}

// One key is added, taken and done, while others are queued or delayed.
func BenchmarkAddNextDone(b *testing.B) {
	for _, others := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			q := queue.New(queue.Options{})
			defer q.Close()
			keys := benchKeys(others + 100)
			for i, k := range keys[100:] {
				if i%2 == 0 {
					q.Add(k, event)
				} else {
					q.AddAfter(k, resync, time.Hour)
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				q.Add(keys[i%100], edit)
				item, _ := q.Next(b.Context())
				q.Done(item.Key, queue.NoRequeue())
				if item.Causes.Has(queue.ChildChanged) {
					q.Add(item.Key, event)
				}
			}
		})
	}
}

// The same with several workers.
func BenchmarkContended(b *testing.B) {
	q := queue.New(queue.Options{})
	defer q.Close()
	names := benchKeys(10_000)
	var turn atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			// Keys are unique: two Adds of one key may be handed out once, and a worker would wait
			// forever.
			n := turn.Add(1)
			q.Add(key(names[n%1000].Name, names[n/1000%10_000].Name), event)
			if item, ok := q.Next(b.Context()); ok {
				q.Done(item.Key, queue.NoRequeue())
			}
		}
	})
}

// 10,000 delayed keys become due together and are done.
func BenchmarkResync10000(b *testing.B) {
	q := queue.New(queue.Options{})
	defer q.Close()
	keys := benchKeys(10_000)
	b.ReportAllocs()
	for b.Loop() {
		for _, k := range keys {
			q.AddAfter(k, resync, time.Millisecond)
		}
		for range keys {
			item, _ := q.Next(b.Context())
			q.Done(item.Key, queue.NoRequeue())
		}
	}
}

// The memory of 10,000 delayed keys, without their strings.
func BenchmarkMemory10000Delayed(b *testing.B) {
	keys := benchKeys(10_000)
	for b.Loop() {
		before := heapInUse()
		q := queue.New(queue.Options{})
		for _, k := range keys {
			q.AddAfter(k, resync, time.Hour)
		}
		b.ReportMetric(float64(heapInUse()-before)/float64(len(keys)), "B/key")
		q.Close()
	}
	runtime.KeepAlive(keys)
}

func heapInUse() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
