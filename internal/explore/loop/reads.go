package loop

import "github.com/setpoint-dev/setpoint/internal/object"

// MayRead reports whether a run of an item may read an object that is neither its own, nor refers to its UID, nor has
// a name under which it writes, or whether an event of the object may queue the item. What has no controller may be
// adopted, and a customize hook may select anything.
func (p *Process) MayRead(item Item, o *object.Object) bool {
	if handles := p.handles(item); handles != nil {
		return len(handles.Related)+len(handles.Reads) > 0
	}
	program := &p.programs.Compose[item.Program]
	_, isChild := program.Children.For(o.GroupKind())
	_, controlled := o.Controller()
	return program.Customize != nil || isChild && !controlled
}
