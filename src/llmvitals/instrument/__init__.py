"""The gateway kit: what a Python gateway puts around its calls so that its page speaks docs/gateway-contract.md."""
