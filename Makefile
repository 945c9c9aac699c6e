# Puts cilium-ipam into a cluster. What is built and tested is cargo's affair: see CONTRIBUTING.md.

HELM ?= helm
NAMESPACE ?= kube-system
# Further flags for helm, such as `--set image.repository=registry.example/cilium-ipam` or `--values values.yaml`.
HELM_FLAGS ?=
IMAGE ?= cilium-ipam:0.1.0
# What builds the image from the Containerfile; `docker build` and `podman build` do, too.
BUILD_IMAGE ?= buildah build
TARGET ?= $(shell uname -m)-unknown-linux-musl
CHART := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))ci/chart

.PHONY: cilium-ipam-install cilium-ipam-upgrade cilium-ipam-uninstall cilium-ipam-image
.PHONY: cilim-ipam-install cilim-ipam-upgrade

# CustomResourceDefinitions are part of the chart, so an upgrade brings them up to date, too.
cilium-ipam-install:
	$(HELM) install cilium-ipam $(CHART) --namespace $(NAMESPACE) $(HELM_FLAGS)

cilium-ipam-upgrade:
	$(HELM) upgrade --install cilium-ipam $(CHART) --namespace $(NAMESPACE) $(HELM_FLAGS)

# Common misspellings of the targets above.
cilim-ipam-install: cilium-ipam-install
cilim-ipam-upgrade: cilium-ipam-upgrade

# IPPools and their definitions stay, and so does every block that a node has. A pool that is deleted later waits for an operator that looks
# whether it is in use; where none will come back, take the finalizer away:
# kubectl patch ippools.cilium-ipam.io NAME --type merge --patch '{"metadata":{"finalizers":null}}'
cilium-ipam-uninstall:
	$(HELM) uninstall cilium-ipam --namespace $(NAMESPACE)

cilium-ipam-image:
	cargo build --release --locked --target $(TARGET) --package cilium-ipam --package neutron-node --bin cilium-ipam --bin neutron-node
	mkdir -p target/image && cp $(addprefix target/$(TARGET)/release/,cilium-ipam neutron-node) target/image/
	$(BUILD_IMAGE) --file Containerfile --tag $(IMAGE) target/image
