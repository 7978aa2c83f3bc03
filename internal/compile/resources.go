package compile

import "github.com/setpoint-dev/setpoint/internal/object"

// Resources returns the kinds of the objects that the programs manage, of their children and
// other objects that the programs may write, and of those that they only read.
func (c *Compiled) Resources() (managed, written, read []object.Resource) {
	for _, p := range c.Programs {
		managed = append(managed, p.Parent)
		for _, rule := range p.Children {
			written = append(written, rule.Resource)
		}
		read = append(read, p.Reads...)
	}
	for _, p := range c.Handlers {
		managed = append(managed, p.Resource)
		written = append(written, p.Owns...)
		for _, w := range p.Writes {
			written = append(written, w.Resource)
		}
		read = append(read, p.Reads...)
		for i := range p.Related {
			read = append(read, p.Related[i].Resource)
		}
	}
	return managed, written, read
}
