package process

import (
	"io"
	"os"
	"os/exec"
	"reflect"
	"time"
)

const (
	// childGrace is how long children may write after their parent has exited, before they are killed.
	childGrace = 300 * time.Millisecond
	// outputTimeout bounds reading what is left then: a child that has left the group may keep the output open. It is long
	// because a reader is late on a busy machine.
	outputTimeout = 5 * time.Second
)

// outputs are the pipes of a program whose output goes to writers. Package exec could only bound how long they are read
// from the exit on, when children still have them.
type outputs struct {
	readers, writers []*os.File
	copies           []io.Writer
	done             chan struct{}
}

// pipeOutput puts pipes in place of the writers of a command that are no files.
func pipeOutput(cmd *exec.Cmd) (*outputs, error) {
	o := &outputs{done: make(chan struct{})}
	same := cmd.Stderr != nil && reflect.TypeOf(cmd.Stderr).Comparable() && cmd.Stderr == cmd.Stdout
	for _, stream := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		if stream == &cmd.Stderr && same {
			cmd.Stderr = cmd.Stdout // One writer gets one write at a time.
			break
		}
		if _, isFile := (*stream).(*os.File); isFile || *stream == nil {
			continue
		}
		reader, writer, err := os.Pipe()
		if err != nil {
			o.closeWriters()
			o.closeReaders()
			return nil, err
		}
		o.readers, o.writers, o.copies = append(o.readers, reader), append(o.writers, writer), append(o.copies, *stream)
		*stream = writer
	}
	return o, nil
}

func (o *outputs) closeWriters() { closeAll(o.writers) }
func (o *outputs) closeReaders() { closeAll(o.readers) }

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// copy copies all output until it is closed.
func (o *outputs) copy() {
	ended := make(chan struct{})
	for i, reader := range o.readers {
		go func() {
			defer func() { ended <- struct{}{} }()
			_, _ = io.Copy(o.copies[i], reader)
			_ = reader.Close() // If the writer fails, the program must not wait.
		}()
	}
	go func() {
		defer close(o.done)
		for range o.readers {
			<-ended
		}
	}()
}

// wait waits until all output is written, for a limited time. It reports whether it is.
func (o *outputs) wait(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-o.done:
		return true
	case <-timer.C:
		return false
	}
}

// stop reads no more.
func (o *outputs) stop() {
	o.closeReaders()
	<-o.done
}
