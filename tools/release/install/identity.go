package install

const admissionVersion = "admissionregistration.k8s.io/v1"

// identityPolicy lets users create a controller, or change its spec, only if they may impersonate the
// ServiceAccount as which it acts: else the author of a controller would have the rights of all of them.
// A controller without one acts as Setpoint's own.
func identityPolicy(policyName, group string, resources list, account join) tree {
	return clusterSpec("ValidatingAdmissionPolicy", policyName, tree{
		"failurePolicy": "Fail",
		"matchConstraints": tree{"resourceRules": list{tree{
			"apiGroups": list{group}, "apiVersions": list{"*"}, "resources": resources, "operations": list{"CREATE", "UPDATE"},
		}}},
		"matchConditions": list{tree{"name": "spec-changed", "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec"}},
		"variables": list{
			tree{"name": "defaultAccount", "expression": join{"'", defaultAccount, "' != '' ? '", defaultAccount, "' : '", releaseNamespace, "/" + name + "'"}},
			tree{"name": "account", "expression": account},
			tree{"name": "accountNamespace", "expression": "variables.account.contains('/') ? variables.account.split('/')[0] : ''"},
			tree{"name": "accountName", "expression": "variables.account.contains('/') ? variables.account.split('/')[1] : variables.account"},
		},
		"validations": list{tree{
			"expression": "authorizer.group('').resource('serviceaccounts').namespace(variables.accountNamespace).name(variables.accountName).check('impersonate').allowed()",
			"messageExpression": "'user ' + request.userInfo.username + ' cannot impersonate the ServiceAccount ' + variables.account + " +
				"(variables.accountNamespace == '' ? ' in all namespaces' : '') + ', as which this controller acts; see spec.serviceAccountName'",
			"reason": "Forbidden",
		}},
	})
}

func identityPolicyBinding(policyName string) tree {
	return clusterSpec("ValidatingAdmissionPolicyBinding", policyName, tree{"policyName": policyName, "validationActions": list{"Deny"}})
}

func clusterSpec(kind, objectName string, spec tree) tree {
	o := clusterObject(admissionVersion, kind, objectName, nil)
	o["spec"] = spec
	return o
}

// identityPolicies are the policies of both groups. Kinds of metacontroller.k8s.io have no field for a
// ServiceAccount.
func identityPolicies() []manifest {
	const own, other = name + "-identities", name + "-identities-metacontroller"
	declared := join{"has(object.spec.serviceAccountName) ? (has(object.spec.serviceAccountNamespace) ? object.spec.serviceAccountNamespace + '/' : '') + " +
		"object.spec.serviceAccountName : variables.defaultAccount"}
	return []manifest{
		{"identitypolicy", identityPolicyEnabled, identityPolicy(own, "setpoint.dev", list{"*"}, declared)},
		{"identitypolicy-binding", identityPolicyEnabled, identityPolicyBinding(own)},
		{"identitypolicy-metacontroller", identityPolicyEnabled,
			identityPolicy(other, "metacontroller.k8s.io", list{"compositecontrollers", "decoratorcontrollers"}, join{"variables.defaultAccount"})},
		{"identitypolicy-metacontroller-binding", identityPolicyEnabled, identityPolicyBinding(other)},
	}
}
