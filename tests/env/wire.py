"""A session over plain HTTP, with nothing between the test and the wire."""

from env_servers.protocol.messages import Problem


class Held:
    def __init__(self, http, lease):
        self.http, self.lease = http, lease
        self.path = f"/v1/sessions/{lease['session']}"
        self.headers = {"Authorization": f"Bearer {lease['token']}"}
        self.episode = self.at = 0

    def post(self, verb, body=None):
        return self.http.post(f"{self.path}/{verb}", json=body, headers=self.headers)

    def reset(self):
        observation = good(self.post("reset"))
        self.episode, self.at = observation["episode"], 0
        return observation

    def request(self, action, **more):
        return {"episode": self.episode, "step": self.at, "action": action, **more}

    def step(self, action, **more):
        reply = self.post("step", self.request(action, **more))
        self.at += reply.status_code == 200
        return reply

    def gui(self, action, **arguments):
        function = {"mobile": "mobile_use", "desktop": "computer_use", "web": "browser_use"}[self.lease["device"]]
        return {"name": function, "arguments": {"action": action, **arguments}}

    def close(self):
        return self.http.delete(self.path, headers=self.headers)


def good(reply):
    assert reply.status_code < 300, reply.text
    return reply.json()


def refused(reply, status, code):
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json"), reply.text
    problem = Problem.model_validate_json(reply.content)
    assert (problem.status, problem.code) == (status, code)
    return problem
