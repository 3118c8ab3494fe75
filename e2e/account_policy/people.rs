//! Who is who, and what belongs to somebody else.

/// Who is who: all may write our kinds; `jane` may act as `mine`, `keeper` may adopt, `actor` may act as everyone,
/// `restorer` may do both. Who breaks two policies at once is answered by either; the table has one at a time.
pub(super) const PEOPLE: &str = "\
apiVersion: v1
kind: Namespace
metadata:
  name: account-policy
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: account-policy-writer
rules:
- apiGroups: [olm.operatorframework.io]
  resources: [clusterextensions, clusterobjectsets]
  verbs: [get, create, update, patch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: account-policy-writer
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: account-policy-writer}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: account-policy-jane}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: account-policy-keeper}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: account-policy-actor}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: account-policy-restorer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: account-policy-impersonator
  namespace: account-policy
rules:
- apiGroups: [\"\"]
  resources: [serviceaccounts]
  resourceNames: [mine]
  verbs: [impersonate]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: account-policy-impersonator
  namespace: account-policy
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: account-policy-impersonator}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: account-policy-jane}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: account-policy-adopter
rules:
- apiGroups: [olm.operatorframework.io]
  resources: [clusterobjectsets]
  verbs: [adopt]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: account-policy-adopter
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: account-policy-adopter}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: account-policy-keeper}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: account-policy-restorer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: account-policy-everyone
rules:
- apiGroups: [\"\"]
  resources: [serviceaccounts]
  verbs: [impersonate]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: account-policy-everyone
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: account-policy-everyone}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: account-policy-actor}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: account-policy-restorer}
";

/// Extensions of somebody else that the table changes: as account `other`, and as none.
pub(super) const EXTENSION: &str = "\
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata:
  name: account-policy-others
  annotations:
    oxolm.dev/crd-deletion: delete
spec:
  namespace: account-policy
  serviceAccount: {name: other}
  source: {sourceType: Catalog, catalog: {packageName: package}}
---
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata:
  name: account-policy-unnamed
spec:
  namespace: account-policy
  source: {sourceType: Catalog, catalog: {packageName: package}}
";

/// The first one's revision; `UID` is the extension's, since the garbage collector removes what belongs to nobody.
pub(super) const REVISION: &str = "\
apiVersion: olm.operatorframework.io/v1
kind: ClusterObjectSet
metadata:
  name: account-policy-others-1
  labels:
    olm.operatorframework.io/owner-name: account-policy-others
  annotations:
    olm.operatorframework.io/service-account-name: other
    olm.operatorframework.io/service-account-namespace: account-policy
  ownerReferences:
  - {apiVersion: olm.operatorframework.io/v1, kind: ClusterExtension, name: account-policy-others, uid: UID, controller: true}
spec:
  lifecycleState: Active
  revision: 1
  collisionProtection: Prevent
";

pub(super) const JANE: &str = "account-policy-jane";
pub(super) const KEEPER: &str = "account-policy-keeper";
pub(super) const ACTOR: &str = "account-policy-actor";
pub(super) const RESTORER: &str = "account-policy-restorer";
