package dashboard

import (
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// downloadCase sends the calls of a run as cases. Tokens stand for values of Secrets.
func downloadCase(req *request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	run, err := req.runFromURL(&runLoader{request: req, runs: map[runKey]inspect.Run{}, tokens: true}, s)
	if err != nil {
		return err
	}
	text, err := run.Cases()
	if err != nil {
		return notFound("Run %d of %s %s cannot be a case: %v.", run.ID, s.Kind.Kind, s.Name, err)
	}
	return req.sendFile(s.Name+"-"+strconv.FormatUint(run.ID, 10)+".yaml", "application/yaml", []byte(text))
}
