module oxolm.dev/oxolm/hack/tools/rig

go 1.26
