"""What a real cluster is like now, from its watches. Knows kube and core; sends nothing but lists and watches."""
