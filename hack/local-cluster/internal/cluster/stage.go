package cluster

import (
	_ "embed"
	"strings"

	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	"sigs.k8s.io/kwok/kustomize/stage/node/heartbeat"
	pod "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// ourStages are for pods that are to fail, and for those that recover.
//
//go:embed stages.yaml
var ourStages string

// The pods that stages.yaml keeps from becoming ready, as jq expressions.
const (
	imageMissing = `any((.spec.containers + .spec.initContainers)[].image; contains("wrong/image"))` +
		` or (.metadata.name | startswith("does-not-exist"))`
	held = imageMissing + ` or .metadata.annotations["local-cluster/crash-loop"] == "true"`
)

const (
	selectors = "    matchExpressions:\n"
	next      = "  next:\n"

	requireNotHeld = "    - key: '" + held + "'\n" +
		"      operator: 'NotIn'\n" +
		"      values:\n" +
		"      - 'true'\n"
)

// stages returns what simulated nodes and pods do: kwok's fast stages, restricted to pods that
// are not held, and ours.
func stages() string {
	notHeld := selectors + requireNotHeld
	slow := "  delay:\n" +
		"    durationFrom:\n" +
		"      expressionFrom: '.metadata.annotations[\"local-cluster/ready-after\"]'\n"
	ready := strings.Replace(pod.DefaultPodReady, selectors, notHeld, 1)
	complete := strings.Replace(pod.DefaultPodComplete, selectors, notHeld, 1)
	return strings.Join([]string{
		fast.DefaultNodeInit,
		heartbeat.DefaultNodeHeartbeat,
		strings.Replace(ready, next, slow+next, 1),
		complete,
		pod.DefaultPodDelete,
		strings.NewReplacer("'IMAGE_MISSING'", "'"+imageMissing+"'", "'HELD'", "'"+held+"'").Replace(ourStages),
	}, "\n---\n")
}
