package install

const admissionVersion = "admissionregistration.k8s.io/v1"

// accountPolicy lets users create a controller, change anything of it but its status, or delete it, only if
// they may impersonate the ServiceAccount as which it acts: else the author of a controller would have the
// rights of all of them, and others could stop it. A label takes it away from a Setpoint, a finalizer keeps it from
// being deleted, and the garbage collector deletes it with an owner. A controller without a ServiceAccount acts as
// Setpoint's own. Setpoint itself, which sets finalizers, is exempt, and so is the garbage collector, which removes
// owners and finalizers and does what others decided when they wrote the owner.
func accountPolicy(policyName, group string, resources list, account func(of string) join) tree {
	changed := "request.operation != 'UPDATE' || object.spec != oldObject.spec"
	for _, field := range []struct{ name, empty string }{{"annotations", "{}"}, {"labels", "{}"}, {"finalizers", "[]"},
		{"ownerReferences", "[]"}} {
		of := func(o string) string {
			return "(has(" + o + ".metadata." + field.name + ") ? " + o + ".metadata." + field.name + " : " + field.empty + ")"
		}
		changed += " || " + of("object") + " != " + of("oldObject")
	}
	return clusterSpec("ValidatingAdmissionPolicy", policyName, tree{
		"failurePolicy": "Fail",
		"matchConstraints": tree{"resourceRules": list{tree{
			"apiGroups": list{group}, "apiVersions": list{"*"}, "resources": resources, "operations": list{"CREATE", "UPDATE", "DELETE"},
		}}},
		"matchConditions": list{
			tree{"name": "not-setpoint", "expression": join{"request.userInfo.username != 'system:serviceaccount:", releaseNamespace, ":" +
				name + "'"}},
			tree{"name": "not-garbage-collector", "expression": "!(request.userInfo.username in " +
				"['system:serviceaccount:kube-system:generic-garbage-collector', 'system:kube-controller-manager'])"},
			tree{"name": "changed", "expression": changed},
		},
		"variables": list{
			tree{"name": "defaultAccount", "expression": join{"'", defaultAccount, "' != '' ? '", defaultAccount, "' : '", releaseNamespace,
				"/" + name + "'"}},
			tree{"name": "account", "expression": append(join{"object == null ? '' : "}, account("object")...)},
			tree{"name": "oldAccount", "expression": append(join{"oldObject == null ? '' : "}, account("oldObject")...)},
		},
		"validations": list{mayImpersonate("variables.account"), mayImpersonate("variables.oldAccount")},
	})
}

// mayImpersonate checks the user's right on a ServiceAccount, NAMESPACE/NAME, or NAME alone for all
// namespaces.
func mayImpersonate(account string) tree {
	check := func(accountNamespace, accountName string) string {
		return "authorizer.group('').resource('serviceaccounts').namespace(" + accountNamespace + ").name(" + accountName +
			").check('impersonate').allowed()"
	}
	return tree{
		"expression": account + " == '' || (" + account + ".contains('/') ? " + check(account+".split('/')[0]", account+".split('/')[1]") +
			" : " + check("''", account) + ")",
		"messageExpression": "'user ' + request.userInfo.username + ' cannot impersonate the ServiceAccount ' + " + account + " + " +
			"(" + account + ".contains('/') ? '' : ' in all namespaces') + ', as which this controller acts; see spec.serviceAccountName'",
		"reason": "Forbidden",
	}
}

func accountPolicyBinding(policyName string) tree {
	return clusterSpec("ValidatingAdmissionPolicyBinding", policyName, tree{"policyName": policyName, "validationActions": list{"Deny"}})
}

func clusterSpec(kind, objectName string, spec tree) tree {
	o := clusterObject(admissionVersion, kind, objectName, nil)
	o["spec"] = spec
	return o
}

// accountPolicies are the policies of both groups. Kinds of metacontroller.k8s.io have no field for a
// ServiceAccount.
func accountPolicies() []manifest {
	const own, other = name + "-serviceaccounts", name + "-serviceaccounts-metacontroller"
	declared := func(of string) join {
		spec := of + ".spec."
		return join{"has(" + spec + "serviceAccountName) ? (has(" + spec + "serviceAccountNamespace) ? " + spec +
			"serviceAccountNamespace + '/' : '') + " +
			spec + "serviceAccountName : variables.defaultAccount"}
	}
	standard := func(string) join { return join{"variables.defaultAccount"} }
	return []manifest{
		{"serviceaccountpolicy", accountPolicyEnabled, accountPolicy(own, "setpoint.dev", list{"*"}, declared)},
		{"serviceaccountpolicy-binding", accountPolicyEnabled, accountPolicyBinding(own)},
		{"serviceaccountpolicy-metacontroller", accountPolicyEnabled,
			accountPolicy(other, "metacontroller.k8s.io", list{"compositecontrollers", "decoratorcontrollers"}, standard)},
		{"serviceaccountpolicy-metacontroller-binding", accountPolicyEnabled, accountPolicyBinding(other)},
	}
}
