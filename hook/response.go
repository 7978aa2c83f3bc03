package hook

// DecodeResponse decodes the response to a Request. The result aliases data, which must
// not change afterwards. Objects keep their bytes, including white space.
//
// Every error is a *MalformedError. An ambiguous response is an error too: a missing
// list of children must never delete all children.
func DecodeResponse(data []byte, w Wire) (*Response, error) {
	r, out := newReader(data, w.Decoding), &Response{}
	children := requiredList{name: w.ControllerType.childrenField(), required: !w.NoChildren}
	fields := []field{
		{children.name, required(r, &children, &out.Children, r.object)},
		{fieldStatus, r.raw(&out.Status)},
		{"resyncAfterSeconds", r.seconds(&out.ResyncAfter)},
		{"finalized", r.boolean(&out.Finalized)},
	}
	if w.ControllerType == Decorator {
		fields = append(fields,
			field{"labels", r.keys(&out.Labels, labelRules)},
			field{"annotations", r.keys(&out.Annotations, annotationRules)},
		)
	}
	if w.Decoding.allowsExtensions() {
		fields = append(fields, r.reportFields(&out.Events, &out.Conditions, &out.Message)...)
	}
	if err := r.documentWithList(&children, fields); err != nil {
		return nil, r.malformed(err)
	}
	return out, nil
}

// The fields that several responses have.
const (
	fieldStatus     = "status"
	fieldEvents     = "events"
	fieldConditions = "conditions"
	fieldMessage    = "message"
)

// reportFields are what a response reports for the object.
func (r *reader) reportFields(events *[]Event, conditions *[]Condition, message *string) []field {
	return []field{
		{fieldEvents, limitedList(r, events, r.event)},
		{fieldConditions, limitedList(r, conditions, func() (Condition, error) { return r.condition(*conditions) })},
		{fieldMessage, func() error {
			*message = "" // Of two, the last one counts, also null.
			return r.text(message)()
		}},
	}
}
