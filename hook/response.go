package hook

// DecodeResponse decodes the response to a Request. The result aliases data, which must
// not change afterwards. Objects keep their bytes, including white space.
//
// Every error is a *MalformedError. An ambiguous response is an error too: a missing
// list of children must never delete all children.
func DecodeResponse(data []byte, w Wire) (*Response, error) {
	r := responseReader{
		reader:         newReader(data, w.Decoding),
		controllerType: w.ControllerType,
		children:       requiredList{name: w.ControllerType.childrenField(), required: !w.NoChildren},
		out:            &Response{},
	}
	if err := r.decode(); err != nil {
		return nil, r.malformed(err)
	}
	return r.out, nil
}

type responseReader struct {
	reader

	controllerType ControllerType
	children       requiredList
	out            *Response
}

// The fields besides the children.
const (
	fieldStatus      = "status"
	fieldResync      = "resyncAfterSeconds"
	fieldFinalized   = "finalized"
	fieldLabels      = "labels"
	fieldAnnotations = "annotations"
	fieldEvents      = "events"
	fieldConditions  = "conditions"
	fieldMessage     = "message"
)

// fields lists all fields that the response may have.
func (r *responseReader) fields() []string {
	names := []string{r.children.name, fieldStatus, fieldResync, fieldFinalized}
	if r.controllerType == Decorator {
		names = append(names, fieldLabels, fieldAnnotations)
	}
	if r.decoding.allowsExtensions() {
		names = append(names, fieldEvents, fieldConditions, fieldMessage)
	}
	return names
}

func (r *responseReader) decode() error {
	if err := r.document(r.field); err != nil {
		return err
	}
	return r.checkRequired(r.children, r.fields())
}

func (r *responseReader) field(name []byte) (err error) {
	switch string(name) {
	case r.children.name:
		r.out.Children = nil
		return r.list(&r.children, r.child)
	case fieldStatus:
		return r.status()
	case fieldResync:
		return r.seconds(&r.out.ResyncAfter)
	case fieldFinalized:
		return r.boolean(&r.out.Finalized)
	}
	if r.controllerType == Decorator {
		switch string(name) {
		case fieldLabels:
			r.out.Labels, err = r.stringMap(labelRules)
			return err
		case fieldAnnotations:
			r.out.Annotations, err = r.stringMap(annotationRules)
			return err
		}
	}
	if r.decoding.allowsExtensions() {
		return r.extension(name)
	}
	return r.unknownListField(r.children, name, r.fields())
}

func (r *responseReader) extension(name []byte) error {
	switch string(name) {
	case fieldEvents:
		r.out.Events = nil
		return r.optional(func() error { return r.event(&r.out.Events) })
	case fieldConditions:
		r.out.Conditions = nil
		return r.optional(func() error { return r.condition(&r.out.Conditions) })
	case fieldMessage:
		r.out.Message = ""
		return r.optionalString(&r.out.Message)
	}
	return r.unknownListField(r.children, name, r.fields())
}

func (r *responseReader) status() (err error) {
	r.out.Status, err = r.rawObject()
	return err
}
