"""A small discrete-event model of a continuous-batching LLM engine, and the pages it would show (docs/simulator.md)."""
