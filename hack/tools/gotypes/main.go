// Command gotypes prints the Go types that a registry+v1 bundle is decoded into, as the table
// src/bundle/typed/types.txt: one type per paragraph, one JSON field per line with its type and how it is encoded.
//
// Usage: go run . api__v1_openapi.json > src/bundle/typed/types.txt
//
// The argument is api/openapi-spec/v3/api__v1_openapi.json of the Kubernetes source; it tells which fields of the
// core types are required, which only the schema of spec.config asks for.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/operator-framework/api/pkg/lib/release"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	crdv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// deploymentConfig is what spec.config may hold below deploymentConfig.
type deploymentConfig struct {
	NodeSelector map[string]string            `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration          `json:"tolerations,omitempty"`
	Resources    *corev1.ResourceRequirements `json:"resources,omitempty"`
	EnvFrom      []corev1.EnvFromSource       `json:"envFrom,omitempty"`
	Env          []corev1.EnvVar              `json:"env,omitempty"`
	Volumes      []corev1.Volume              `json:"volumes,omitempty"`
	VolumeMounts []corev1.VolumeMount         `json:"volumeMounts,omitempty"`
	Affinity     *corev1.Affinity             `json:"affinity,omitempty"`
	Annotations  map[string]string            `json:"annotations,omitempty"`
}

var custom = map[reflect.Type]string{
	reflect.TypeOf(resource.Quantity{}):                  "quantity",
	reflect.TypeOf(metav1.Time{}):                        "time",
	reflect.TypeOf(metav1.MicroTime{}):                   "microtime",
	reflect.TypeOf(metav1.Duration{}):                    "duration",
	reflect.TypeOf(metav1.FieldsV1{}):                    "json",
	reflect.TypeOf(intstr.IntOrString{}):                 "int-or-string",
	reflect.TypeOf(crdv1.JSON{}):                         "json",
	reflect.TypeOf(crdv1.JSONSchemaPropsOrBool{}):        "schema-or-bool",
	reflect.TypeOf(crdv1.JSONSchemaPropsOrArray{}):       "schema-or-array",
	reflect.TypeOf(crdv1.JSONSchemaPropsOrStringArray{}): "schema-or-strings",
	reflect.TypeOf(version.OperatorVersion{}):            "version",
	reflect.TypeOf(release.OperatorRelease{}):            "release",
	reflect.TypeOf(json.RawMessage{}):                    "json",
}

var packages = map[string]string{
	"k8s.io/api/core/v1":                                       "core",
	"k8s.io/api/apps/v1":                                       "apps",
	"k8s.io/api/rbac/v1":                                       "rbac",
	"k8s.io/api/admissionregistration/v1":                      "admission",
	"k8s.io/apimachinery/pkg/apis/meta/v1":                     "meta",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": "crd",
	"github.com/operator-framework/api/pkg/operators/v1alpha1": "csv",
	"main": "bundle",
}

var openAPI = map[string]map[string]bool{}

func name(t reflect.Type) string {
	p, ok := packages[t.PkgPath()]
	if !ok {
		panic("no short name for package " + t.PkgPath() + " of " + t.String())
	}
	return p + "." + strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
}

var queue []reflect.Type
var seen = map[reflect.Type]bool{}

func expression(t reflect.Type) string {
	if c, ok := custom[t]; ok {
		return c
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + expression(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + expression(t.Elem())
	case reflect.Map:
		return "{}" + expression(t.Elem())
	case reflect.Struct:
		if !seen[t] {
			seen[t] = true
			queue = append(queue, t)
		}
		return name(t)
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		if t.PkgPath() != "" {
			return t.Kind().String() + "=" + t.String()
		}
		return t.Kind().String()
	}
	panic("unforeseen type " + t.String())
}

func fields(t reflect.Type, required map[string]bool) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("json"), ",")
		if tag[0] == "-" || !f.IsExported() {
			continue
		}
		if tag[0] == "" && f.Anonymous {
			fields(f.Type, required)
			continue
		}
		key := tag[0]
		if key == "" {
			key = f.Name
		}
		line := "  " + key + " " + expression(f.Type)
		for _, option := range tag[1:] {
			if option == "omitempty" || option == "omitzero" {
				line += " " + option
			}
		}
		if required[key] {
			line += " required"
		}
		fmt.Println(line)
	}
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct{ Required []string }
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		panic(err)
	}
	for schema, s := range document.Components.Schemas {
		short := schema[strings.LastIndex(schema, ".")+1:]
		for prefix, p := range map[string]string{"io.k8s.api.core.v1.": "core.", "io.k8s.apimachinery.pkg.apis.meta.v1.": "meta."} {
			if strings.HasPrefix(schema, prefix) {
				openAPI[p+short] = map[string]bool{}
				for _, r := range s.Required {
					openAPI[p+short][r] = true
				}
			}
		}
	}
	expression(reflect.TypeOf(v1alpha1.ClusterServiceVersion{}))
	expression(reflect.TypeOf(crdv1.CustomResourceDefinition{}))
	expression(reflect.TypeOf(deploymentConfig{}))
	fmt.Println("# Generated by hack/tools/gotypes; do not edit.")
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		fmt.Println()
		fmt.Println(name(t))
		fields(t, openAPI[name(t)])
	}
}
