package cluster

import "fmt"

const nodeCount = 3

type object = map[string]any

// nodes returns the simulated machines. They carry every label that operators in public catalogs
// select nodes by; with fewer some of them stay unavailable. version is the kubelet's.
func nodes(version string) []object {
	var all []object
	// kwok's own answer leaves out local storage, which pods ask for as well.
	room := map[string]string{"cpu": "1k", "ephemeral-storage": "1Ti", "memory": "1Ti", "pods": "1M"}
	for i := range nodeCount {
		name := fmt.Sprintf("node-%d", i+1)
		all = append(all, object{
			"apiVersion": "v1",
			"kind":       "Node",
			"metadata": object{
				"name": name,
				"labels": map[string]string{
					"kubernetes.io/arch":                    "amd64",
					"kubernetes.io/hostname":                name,
					"kubernetes.io/os":                      "linux",
					"node-role.kubernetes.io/control-plane": "",
					"node-role.kubernetes.io/master":        "",
					"node-role.kubernetes.io/worker":        "",
					"topology.kubernetes.io/region":         "local",
					"topology.kubernetes.io/zone":           fmt.Sprintf("local-%c", 'a'+i),
				},
			},
			"status": object{
				"allocatable": room,
				"capacity":    room,
				"addresses": []object{
					{"type": "InternalIP", "address": fmt.Sprintf("10.0.0.%d", i+1)},
					{"type": "Hostname", "address": name},
				},
				"nodeInfo": map[string]string{
					"architecture":            "amd64",
					"bootID":                  "",
					"containerRuntimeVersion": "kwok://simulated",
					"kernelVersion":           "simulated",
					"kubeProxyVersion":        version,
					"kubeletVersion":          version,
					"machineID":               name,
					"operatingSystem":         "linux",
					"osImage":                 "simulated",
					"systemUUID":              name,
				},
			},
		})
	}
	return all
}

// nodeList is the part of a list of nodes that readiness depends on.
type nodeList struct {
	Items []struct {
		Spec struct {
			Taints []object `json:"taints"`
		} `json:"spec"`
		Status struct {
			Conditions []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
			} `json:"conditions"`
		} `json:"status"`
	} `json:"items"`
}

// schedulable counts the nodes that are ready and that nothing keeps pods from.
func (l nodeList) schedulable() int {
	count := 0
	for _, node := range l.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" && len(node.Spec.Taints) == 0 {
				count++
			}
		}
	}
	return count
}
