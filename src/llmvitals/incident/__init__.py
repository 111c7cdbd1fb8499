"""The report of an incident: verdict, timeline, evidence, configuration, and a recording that anyone can replay."""
