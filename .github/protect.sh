#!/usr/bin/env bash
# Allows each deployment environment for `main` only, and protects `main`. Needs gh, signed in as an administrator.
# usage: .github/protect.sh OWNER/REPOSITORY
set -euo pipefail
repository=${1:?usage: .github/protect.sh OWNER/REPOSITORY}
for environment in dev prod dev-read prod-read; do
    gh api --method PUT "repos/$repository/environments/$environment" \
        -F "deployment_branch_policy[protected_branches]=false" \
        -F "deployment_branch_policy[custom_branch_policies]=true"
    gh api --method POST "repos/$repository/environments/$environment/deployment-branch-policies" -f name=main
done
gh api --method PUT "repos/$repository/branches/main/protection" --input - <<'JSON'
{"required_status_checks": {"strict": true, "contexts": ["verdict", "lint (3.11)", "lint (3.12)", "lint (3.13)", "test", "demo", "docs"]},
 "required_pull_request_reviews": {"required_approving_review_count": 1},
 "enforce_admins": true, "restrictions": null}
JSON
