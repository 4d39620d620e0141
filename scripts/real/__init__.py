"""SmolLM2-135M-Instruct, the published model that quality is measured on: what scripts/real_model.sh runs."""
