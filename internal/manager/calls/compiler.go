package calls

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
)

const (
	// compilePatience is how long the queue of controllers waits for code to compile.
	compilePatience = 2 * time.Second
	// unclaimedTimeout is how long compiled code is kept for a controller that does not use it: its spec
	// may have changed meanwhile.
	unclaimedTimeout = time.Minute
	// maxRemembered is how many errors of a controller's code are remembered.
	maxRemembered = 16
)

// ErrCompiling means that the code of a controller is still being compiled.
var ErrCompiling = errors.New("the code of its inline hooks is still being compiled")

// Compiler compiles the code of inline hooks. Code that takes long to load, or never does, delays no
// other controller, and code that does not compile is not compiled again.
type Compiler struct {
	compile func(ctx context.Context, script call.Script) (call.Program, error)
	// compiled is called when code has been compiled for which its controller did not wait.
	compiled func(controller string)

	mu   sync.Mutex
	jobs map[string]map[scriptDigest]*compileJob
}

// scriptDigest identifies code.
type scriptDigest [sha256.Size]byte

// compileJob compiles one script. Who removes it from the jobs owns its program.
type compileJob struct {
	cancel context.CancelFunc
	// done is closed when program or err is set.
	done    chan struct{}
	program call.Program
	err     error
	// awaited means that its controller has to be enqueued.
	awaited bool
}

// NewCompiler returns a Compiler that calls compiled when it has compiled code for which its controller did not wait.
func NewCompiler(compile func(context.Context, call.Script) (call.Program, error), compiled func(controller string)) *Compiler {
	return &Compiler{compile: compile, compiled: compiled, jobs: map[string]map[scriptDigest]*compileJob{}}
}

// Compile returns the program of a script, its error, or ErrCompiling.
func (c *Compiler) Compile(ctx context.Context, script call.Script) (call.Program, error) {
	text, err := json.Marshal(script)
	if err != nil {
		return nil, err
	}
	digest := scriptDigest(sha256.Sum256(text))
	job, started := c.job(script, digest)
	if started {
		patience := time.NewTimer(compilePatience)
		defer patience.Stop()
		select {
		case <-job.done:
		case <-patience.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return c.claim(script.Controller, digest)
}

// job returns the job of a script. It starts one if there is none.
func (c *Compiler) job(script call.Script, digest scriptDigest) (_ *compileJob, started bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if job := c.jobs[script.Controller][digest]; job != nil {
		return job, false
	}
	if len(c.jobs[script.Controller]) >= maxRemembered {
		c.drop(script.Controller)
	}
	if c.jobs[script.Controller] == nil {
		c.jobs[script.Controller] = map[scriptDigest]*compileJob{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	job := &compileJob{cancel: cancel, done: make(chan struct{})}
	c.jobs[script.Controller][digest] = job
	go c.run(ctx, job, script, digest)
	return job, true
}

func (c *Compiler) run(ctx context.Context, job *compileJob, script call.Script, digest scriptDigest) {
	defer job.cancel()
	program, err := c.compile(ctx, script)
	c.mu.Lock()
	job.program, job.err = program, err
	close(job.done)
	dropped, awaited := c.jobs[script.Controller][digest] != job, job.awaited
	c.mu.Unlock()
	if dropped {
		job.close()
		return
	}
	if awaited {
		c.compiled(script.Controller)
	}
	if program != nil {
		time.AfterFunc(unclaimedTimeout, func() { c.closeUnclaimed(script.Controller, digest, job) })
	}
}

// claim returns the result of a job. It remembers errors of the code.
func (c *Compiler) claim(controller string, digest scriptDigest) (call.Program, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	job := c.jobs[controller][digest]
	switch {
	case job == nil:
		return nil, ErrCompiling // A change of its controller is queued.
	case !job.isDone():
		job.awaited = true
		return nil, ErrCompiling
	}
	if _, ofCode := errors.AsType[*call.SourceError](job.err); !ofCode {
		delete(c.jobs[controller], digest)
	}
	return job.program, job.err
}

func (c *Compiler) closeUnclaimed(controller string, digest scriptDigest, job *compileJob) {
	c.mu.Lock()
	unclaimed := c.jobs[controller][digest] == job
	if unclaimed {
		delete(c.jobs[controller], digest)
	}
	c.mu.Unlock()
	if unclaimed {
		job.close()
	}
}

// Drop forgets the code of a removed controller.
func (c *Compiler) Drop(controller string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(controller)
}

func (c *Compiler) drop(controller string) {
	for _, job := range c.jobs[controller] {
		job.cancel()
		if job.isDone() {
			go job.close()
		}
	}
	delete(c.jobs, controller)
}

func (j *compileJob) isDone() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

func (j *compileJob) close() {
	if j.program != nil {
		j.program.Close()
	}
}
