// Loads the compose files that it is given as Docker Compose does, and says what is wrong with them: an
// error of the loader, a service that is not there, an image without a version, a file that is missing, a
// long-running service without health check or restart.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

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
	options, err := cli.NewProjectOptions([]string{path}, cli.WithResolvedPaths(true), cli.WithDotEnv)
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	var found []string
	for name, service := range project.Services {
		for _, what := range checkService(project, service) {
			found = append(found, name+": "+what)
		}
	}
	return found, nil
}

func checkService(project *types.Project, service types.ServiceConfig) []string {
	var found []string
	if service.Build == nil {
		if _, tag, is := strings.Cut(service.Image, ":"); !is || tag == "latest" {
			found = append(found, "the image has no version")
		}
	} else if _, err := os.Stat(service.Build.Context + "/" + service.Build.Dockerfile); err != nil {
		found = append(found, err.Error())
	}
	for other, how := range service.DependsOn {
		needed, is := project.Services[other]
		healthy := how.Condition == types.ServiceConditionHealthy
		if is && healthy && needed.HealthCheck == nil && needed.Build == nil {
			found = append(found, "waits for the health of "+other+", which has no check")
		}
		ends := how.Condition == types.ServiceConditionCompletedSuccessfully
		if is && ends && needed.Restart != "" {
			found = append(found, "waits for the end of "+other+", which is restarted")
		}
	}
	for _, volume := range service.Volumes {
		own := volume.Type == types.VolumeTypeBind && strings.HasPrefix(volume.Source, project.WorkingDir)
		if _, err := os.Stat(volume.Source); own && err != nil {
			found = append(found, err.Error())
		}
	}
	return found
}
