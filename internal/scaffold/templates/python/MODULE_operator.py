"""The operator of <%.Plural%>. Setpoint calls its functions."""

from setpoint import Call, on

KIND = "<%.Plural%>.<%.Group%>"
OWNS = [<%range $i, $c := .Children%><%if $i%>, <%end%>"<%.APIVersion%>/<%.Resource%>"<%end%>]


@on.change(KIND, "spec", owns=OWNS)
@on.drift(KIND, owns=OWNS)
def apply(call: Call):
    """Return the objects that a <%.Kind%> should own.

    Setpoint calls it for each new <%.Kind%>, when its spec changes, and when another client changes or deletes an
    object that it owns.
    """
<%- if .HasStatus%>
    parent, name = call.object, call.name
    call.status["ready"] = True
<%- else%>
    name = call.name
<%- end%>
    return [
<%.Objects "python" 8%>
    ]
