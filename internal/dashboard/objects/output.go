package objects

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// programOutput returns what the programs that a run called printed; nothing of a run with values
// of Secrets, or with objects that the user may not get.
func (req *Request) programOutput(s *Object, run *inspect.Run) (all []timeline.ProgramOutput) {
	if req.pages.Programs == nil || !run.MayShowOutput() {
		return nil
	}
	programs := req.pages.Programs()
	called := req.calledPrograms(run, programs)
	if len(called) == 0 {
		return nil
	}
	runs, _ := req.fetchRuns(s, maxEarlier)
	next := timeline.NextRun(run, runs)
	for i, p := range programs {
		if steps := called[i]; len(steps) > 0 {
			output := timeline.OutputDuring(run, steps, next, p.Output())
			output.Process = p.Name
			all = append(all, output)
		}
	}
	return all
}

// calledPrograms returns the calls of a run by the index of the program that served them: the one at
// the address of a webhook, or the one with the controller, which has no object then.
func (req *Request) calledPrograms(run *inspect.Run, programs []Program) map[int][]inspect.Step {
	called := map[int][]inspect.Step{}
	addresses, declared := req.hookAddresses(run)
	for _, step := range run.Steps {
		if step.Call == nil {
			continue
		}
		at := slices.IndexFunc(programs, func(p Program) bool {
			if address := addresses[step.Call.Name]; address != "" {
				return p.Serves(address)
			}
			return !declared && p.Name == run.Process
		})
		if at >= 0 {
			called[at] = append(called[at], step)
		}
	}
	return called
}
