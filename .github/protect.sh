#!/usr/bin/env bash
# Allows each deployment environment for `main` only, and protects `main`. Needs gh, signed in as an administrator.
# A pull request's code computes its own checks, the review's verdict included, and its own workflows run it. So the owners
# in .github/CODEOWNERS approve the last push, and a push dismisses earlier approvals.
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
{"required_status_checks": {"strict": true, "contexts": ["verdict", "lint (3.11)", "lint (3.12)", "lint (3.13)", "light (3.11)", "light (3.12)", "light (3.13)", "light (3.14)", "test", "elsewhere", "demo", "docs"]},
 "required_pull_request_reviews": {"required_approving_review_count": 1, "require_code_owner_reviews": true,
                                   "dismiss_stale_reviews": true, "require_last_push_approval": true},
 "enforce_admins": true, "restrictions": null}
JSON
