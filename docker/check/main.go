// Loads the compose files that it is given as Docker Compose does, and says what is wrong with them: an
// error of the loader, an image without a version, a file that is missing, a long-running service without health
// check or restart, a wait that cannot end, a mount that others do not see or that does not see their processes, a
// secret that is written down or that its reader does not wait for. An argument A:B is the file A, changed by B.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func main() {
	wrong := 0
	for _, path := range os.Args[1:] {
		found, err := check(path)
		if err != nil {
			found = append(found, err.Error())
		}
		sort.Strings(found)
		for _, what := range found {
			fmt.Printf("%s: %s\n", path, what)
		}
		wrong += len(found)
		if len(found) == 0 {
			fmt.Printf("%s: right\n", path)
		}
	}
	if wrong > 0 || len(os.Args) < 2 {
		os.Exit(1)
	}
}

func check(path string) ([]string, error) {
	options, err := cli.NewProjectOptions(strings.Split(path, ":"), cli.WithResolvedPaths(true), cli.WithDotEnv)
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	var found []string
	for name, service := range project.Services {
		of := [][]string{
			checkImage(service),
			checkLife(project, name, service),
			checkWaits(project, service),
			checkVolumes(project, name, service),
			checkSecrets(project, name, service),
		}
		for _, some := range of {
			for _, what := range some {
				found = append(found, name+": "+what)
			}
		}
	}
	return found, nil
}

func checkImage(service types.ServiceConfig) []string {
	if service.Build == nil {
		if _, tag, is := strings.Cut(service.Image, ":"); !is || tag == "latest" {
			return []string{"the image has no version"}
		}
	} else if _, err := os.Stat(dockerfile(service)); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func dockerfile(service types.ServiceConfig) string {
	return service.Build.Context + "/" + service.Build.Dockerfile
}

// Tells whether the service has a health check, of its own or of its Dockerfile.
func hasHealth(service types.ServiceConfig) bool {
	if service.HealthCheck != nil {
		return !service.HealthCheck.Disable
	}
	if service.Build == nil {
		return false
	}
	text, err := os.ReadFile(dockerfile(service))
	return err == nil && strings.Contains(string(text), "\nHEALTHCHECK ")
}

// Tells whether others wait for the end of the service.
func isJob(project *types.Project, name string) bool {
	for _, other := range project.Services {
		how, is := other.DependsOn[name]
		if is && how.Condition == types.ServiceConditionCompletedSuccessfully {
			return true
		}
	}
	return false
}

func checkLife(project *types.Project, name string, service types.ServiceConfig) []string {
	var found []string
	restarts := service.Restart != "" && service.Restart != types.RestartPolicyNo
	if isJob(project, name) {
		if restarts {
			found = append(found, "others wait for its end, and it is restarted")
		}
		return found
	}
	if !restarts {
		found = append(found, "it runs long, and is not restarted")
	}
	if !hasHealth(service) {
		found = append(found, "it runs long, and has no health check")
	}
	// Three times http.drain, and 21 s.
	if grace := service.StopGracePeriod; service.Build != nil && (grace == nil || time.Duration(*grace) < 111*time.Second) {
		found = append(found, "it is killed before it has drained")
	}
	return found
}

func checkWaits(project *types.Project, service types.ServiceConfig) []string {
	var found []string
	for other, how := range service.DependsOn {
		healthy := how.Condition == types.ServiceConditionHealthy
		if needed, is := project.Services[other]; is && healthy && !hasHealth(needed) {
			found = append(found, "waits for the health of "+other+", which has no check")
		}
		if how.Condition == types.ServiceConditionStarted {
			found = append(found, "waits for the start of "+other+" alone")
		}
	}
	return found
}

// Tells whether the service starts after the other one is healthy, or has ended.
func waitsFor(project *types.Project, service types.ServiceConfig, other string) bool {
	for name := range service.DependsOn {
		if name == other || waitsFor(project, project.Services[name], other) {
			return true
		}
	}
	return false
}

func mounts(service types.ServiceConfig) bool {
	for _, device := range service.Devices {
		if device.Source == "/dev/fuse" {
			return true
		}
	}
	return false
}

func checkVolumes(project *types.Project, name string, service types.ServiceConfig) []string {
	var found []string
	if mounts(service) && service.Pid != "host" {
		found = append(found, "its mount sees no processes of other containers without \"pid: host\"")
	}
	for _, volume := range service.Volumes {
		if volume.Type != types.VolumeTypeBind {
			continue
		}
		info, err := os.Stat(volume.Source)
		shipped := strings.HasPrefix(volume.Source, project.WorkingDir)
		if shipped && err != nil {
			found = append(found, err.Error())
		}
		if shipped || err == nil && info.Mode().IsRegular() {
			continue
		}
		propagation, wanted := "", types.PropagationRSlave
		if volume.Bind != nil {
			propagation = volume.Bind.Propagation
		}
		if mounts(service) {
			wanted = types.PropagationRShared
		}
		if propagation != wanted {
			found = append(found, "mounts below "+volume.Target+" need the propagation "+wanted)
		}
		for other, its := range project.Services {
			if mounts(its) && other != name && !isJob(project, name) && !waitsFor(project, service, other) {
				found = append(found, "does not wait for "+other+", which mounts below "+volume.Target)
			}
		}
	}
	return found
}

var (
	secretName = regexp.MustCompile(`PASSWORD|SECRET|TOKEN`)
	secretFile = regexp.MustCompile(`\bfile = "([^"]+)"`)
)

// Of a project whose secrets are made at its first start, in volumes named so.
func checkSecrets(project *types.Project, name string, service types.ServiceConfig) []string {
	var found []string
	targets := map[string]bool{}
	for _, volume := range service.Volumes {
		if volume.Type != types.VolumeTypeVolume || !strings.HasSuffix(volume.Source, "-secret") {
			continue
		}
		targets[volume.Target] = true
		makers := makers(project, volume.Source)
		if len(makers) != 1 {
			found = append(found, fmt.Sprintf("%s is written by %v", volume.Source, makers))
		} else if makers[0] != name && !waitsFor(project, service, makers[0]) {
			found = append(found, "does not wait for "+makers[0]+", which makes "+volume.Source)
		}
	}
	if !hasSecretVolumes(project) {
		return found
	}
	for key, value := range service.Environment {
		if !secretName.MatchString(key) || strings.Contains(key, "_RANDOM_") {
			continue
		}
		if !strings.HasSuffix(key, "_FILE") {
			found = append(found, key+" is written down")
		} else if value == nil || !targets[filepath.Dir(*value)] {
			found = append(found, key+" is in no volume of secrets")
		}
	}
	for _, volume := range service.Volumes {
		if !strings.HasSuffix(volume.Source, ".toml") {
			continue
		}
		text, err := os.ReadFile(volume.Source)
		if err != nil {
			continue // it was told
		}
		if !strings.Contains(string(text), "\ntoken = { file = ") {
			found = append(found, volume.Source+" has no admin token")
		}
		for _, file := range secretFile.FindAllStringSubmatch(string(text), -1) {
			if !targets[filepath.Dir(file[1])] {
				found = append(found, file[1]+" is in no volume of secrets")
			}
		}
	}
	return found
}

func hasSecretVolumes(project *types.Project) bool {
	for name := range project.Volumes {
		if strings.HasSuffix(name, "-secret") {
			return true
		}
	}
	return false
}

// The services that may write to the volume.
func makers(project *types.Project, source string) []string {
	var all []string
	for name, service := range project.Services {
		for _, volume := range service.Volumes {
			if volume.Source == source && !volume.ReadOnly {
				all = append(all, name)
			}
		}
	}
	return all
}
