"""Looks at a running server in a browser, as an operator does:  inspector_test.py PATH-OF-ANABRANCH

Prints a line for each check, and at the end what was measured. The exit status is 1 if one fails.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from urllib.parse import quote

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import accessibility  # noqa: E402
import payloads  # noqa: E402
from roles import Roles  # noqa: E402
from world import ADMINISTRATOR, NOTES, SCHEMA, Browser, Server, fill, note, path_query, program_from, wait_for  # noqa: E402

P = path_query(NOTES)
ONE = quote('{"int":"1"}')
PAGES = {
    "/": "Serving", "/files": "Versions", f"/file?path={P}": "Schema", f"/objects?path={P}&class=Note": "objects",
    f"/objects?path={P}&class=Note&as=developer": "may read and write it",
    f"/object?path={P}&class=Note&key={ONE}": "Who wrote what", f"/history?path={P}": "An arm leaves", f"/edits?path={P}": "A pause ends an edit after", f"/version?path={P}&version=9": "Instructions",
    f"/diff?path={P}&from=3&to=9": "differ", f"/clients?path={P}": "Behind", "/sessions": "Sessions", "/users": "Users", "/user?user=developer": "Files",
}


class Checks:
    def __init__(self, program, folder):
        self.server = Server(program, folder)
        self.browser = None
        self.figures = {}

    def page(self, address, says=None):
        self.browser.open(self.server.pages + address, address.split("?")[0])
        if says:
            self.browser.says(says)

    def http(self, path, method="GET", body=None, server=None, **headers):
        request = urllib.request.Request(
            (server or self.server).pages + path, method=method, data=body, headers={name.replace("_", "-"): value for name, value in headers.items()})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()

    def cookie(self):
        cookie = self.browser.driver.get_cookies()[0]
        return f"{cookie['name']}={cookie['value']}"

    # MARK: Safety

    def check_that_nothing_is_shown_without_the_token(self):
        server, browser = self.server, self.browser
        assert f"url={server.pages}\n" in (server.folder / "server.log").read_text()
        browser.open(f"{server.pages}/files?q=x", "/log-in")
        assert "then=%2Ffiles%3Fq%3Dx" in browser.driver.current_url
        browser.find("#token").send_keys("0123456789abcdef wrong")
        browser.find("form.login button").click()
        browser.says("this is not the token")
        assert not browser.driver.get_cookies()
        for path in ["/overview.json", "/files.json", f"/objects.json?path={P}&class=Note", "/nothing.json", "/nothing"]:
            status, _, body = self.http(path)
            assert status == 401 and b"NotLoggedIn" in body, (path, status)
        assert json.loads(self.http("/session.json")[2]) == {"logged_in": False, "takes_users": True}
        assert self.http("/assets/nothing.js")[0] == 401 and self.http("/assets/../admin-token")[0] == 401
        # The wrong token, whose answer is a status of its own, is in the console by then.
        assert all("log-in" in message for message in browser.console())

    def check_the_log_in(self):
        server, browser = self.server, self.browser
        browser.find("#token").clear()
        browser.find("#token").send_keys(server.token)
        browser.find("form.login button").click()
        browser.shown("/files")
        assert browser.driver.current_url.endswith("/files?q=x")
        cookie, = browser.driver.get_cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["path"] == "/", cookie
        assert server.token not in cookie["value"] and server.token not in browser.driver.current_url
        assert browser.script("return document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)") == "{}{}"

    def check_requests_of_others(self):
        own, cookie, post = self.server.pages, self.cookie(), {"method": "POST", "body": b'{"path":"x","client":2}'}
        assert self.http("/files.json", Cookie=cookie)[0] == 200
        assert self.http("/files.json", Authorization=f"Bearer {self.server.token}")[0] == 200
        for wrong in ["Bearer " + self.server.token + "0", "Bearer", self.server.token, "Basic " + self.server.token, f"Bearer {self.server.token[:-1]}"]:
            assert self.http("/files.json", Authorization=wrong)[0] == 401, wrong
        assert self.http("/files.json", Cookie=cookie, Sec_Fetch_Site="cross-site")[0] == 401
        assert self.http("/files.json", Cookie=cookie, Sec_Fetch_Site="same-site")[0] == 401
        assert self.http("/v1/files", Cookie=cookie)[0] == 401, "the endpoints take the token alone"
        for changed in [cookie[:-1] + ("0" if cookie[-1] != "0" else "1"), cookie.replace("=", "=9", 1), cookie.split(".")[0], cookie.split("=")[0] + "="]:
            assert self.http("/files.json", Cookie=changed)[0] == 401, changed
        for headers in [{}, {"Origin": "http://evil.example"}, {"Origin": own}, {"Origin": "null", "X_Inspector": "1"},
                        {"Origin": own, "X_Inspector": "1", "Sec_Fetch_Site": "cross-site"}, {"Origin": own + "0", "X_Inspector": "1"}]:
            status, _, body = self.http("/expire", Cookie=cookie, **post, **headers)
            assert status == 403 and b"Origin" in body, (headers, status)
        assert self.http("/expire", Origin=own, X_Inspector="1", **post)[0] == 401
        assert self.http("/expire", Authorization=f"Bearer {self.server.token}", Origin=own, X_Inspector="1", **post)[0] == 401
        assert self.http("/files", method="PUT", body=b"")[0] == 405
        for path in ["/", "/files", "/assets/app.js", "/session.json", "/nothing"]:
            headers = self.http(path)[1]
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "trusted-types 'none'" in policy
            assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
        for path in ["/session.json", "/files.json", "/nothing"]:
            assert self.http(path)[1]["Content-Type"].startswith("application/json"), path
            assert self.http(path)[1]["Cache-Control"] == "no-store", path

    # MARK: Pages

    def check_every_page(self):
        browser = self.browser
        browser.console()
        for address, text in PAGES.items():
            self.page(address, text)
            twin = address.split("?")
            name = "/overview" if twin[0] == "/" else twin[0]
            found = browser.script("return fetch(arguments[0]).then(async (r) => [r.status, Object.keys(await r.json()).length])",
                                   "?".join([f"{name}.json"] + twin[1:]))
            assert found[0] == 200 and found[1] > 0, (address, found)
            accessibility.check_names(browser, address)
            accessibility.check_contrast(browser, address)
            assert not browser.console(), (address, browser.console())
        browser.open(self.server.pages + f"/object?path={P}&class=Nothing&key=null")
        browser.says("This page cannot be shown")
        browser.says("there is no class Nothing")
        browser.console()

    def check_dark_small_and_large(self):
        browser = self.browser
        browser.scheme("dark", motion="reduce")
        for address, text in PAGES.items():
            browser.size(360, 740)
            self.page(address, text)
            accessibility.check_contrast(browser, address + " in the dark")
            accessibility.check_room(browser, address, 360)
            # What one may do, and the way out, are on the smallest screen as well.
            for css in ("#bar .rights", "#bar button"):
                assert browser.find(css).rect["x"] + browser.find(css).rect["width"] <= 360, (address, css)
            browser.size(3840, 2160)
            accessibility.check_room(browser, address, 3840)
        browser.scheme("light")
        browser.size(1280, 800)

    def check_the_keyboard(self):
        from selenium.webdriver.common.keys import Keys
        browser = self.browser
        for address in ["/files", f"/file?path={P}", f"/history?path={P}", f"/version?path={P}&version=9"]:
            self.page(address, PAGES[address])
            accessibility.check_keyboard(browser, address)
        self.page(f"/objects?path={P}&class=Note", "59 objects")
        table = browser.find("[role=grid]")
        table.send_keys(Keys.END)
        browser.until(lambda: "59" in browser.text(".row.active"), "the end is not reached")
        table.send_keys(Keys.HOME, Keys.ARROW_DOWN, Keys.ENTER)
        browser.shown("/object")
        assert browser.text("main h2") == "Note 2"
        self.page("/files")
        browser.find("body").send_keys("/")
        assert browser.script("return document.activeElement.type") == "search"

    # MARK: Objects

    def check_filters_sorting_and_columns(self):
        browser = self.browser
        self.page(f"/objects?path={P}&class=Note", "59 objects")
        field = browser.find("#filter")

        def ask(text):
            field.clear()
            field.send_keys(text)
            browser.find(".filter button").click()
        ask("done == true AND price > 10")
        wanted = self.json(f"/objects.json?path={P}&class=Note&filter={quote('done == true AND price > 10')}")["count"]
        assert 0 < wanted < 59
        browser.says(f"{wanted} objects")
        ask("done == true AND pirce > 10")
        browser.until(lambda: "pirce" in browser.text("#filter-error"), "the mistake is not shown")
        assert browser.text("#filter-error mark") == "p" and field.get_attribute("aria-invalid") == "true"
        ask("title BEGINSWITH[c] 'fahrrad' SORT(title ASC)")
        browser.until(lambda: "headings of the table" in browser.text("#filter-error"), "suffixes are refused")
        ask("")
        browser.says("59 objects")
        browser.all("button.order")[1].click()
        browser.until(lambda: "sort=title" in browser.driver.current_url, "the order is part of the address")
        titles = [self.json(f"/objects.json?path={P}&class=Note&sort=title&limit=500")["rows"][at]["values"][0] for at in (0, 1, 58)]
        browser.until(lambda: titles[0] in browser.text('.row[aria-rowindex="2"]'), "the first row is another one")
        browser.all("button.order")[1].click()
        browser.until(lambda: titles[2] in browser.text('.row[aria-rowindex="2"]'), "the order is not turned round")
        browser.driver.refresh()
        browser.shown("/objects")
        browser.until(lambda: titles[2] in browser.text('.row[aria-rowindex="2"]'), "the address does not hold the order")
        browser.find(".menu summary").click()
        browser.all(".menu input[type=checkbox]")[2].click()
        browser.until(lambda: "price" not in browser.text(".head"), "the column stays")
        assert "hide=price" in browser.driver.current_url
        self.page(f"/objects?path={P}&class=Note", "59 objects")
        browser.all(".menu summary")[1].click()
        browser.script("const s = document.querySelector('.facets').parentElement.querySelector('select'); s.value = 'done'; s.dispatchEvent(new Event('change'))")
        browser.until(lambda: browser.all("button.facet"), "no facets").__getitem__(0).click()
        browser.until(lambda: "filter=done" in browser.driver.current_url, "the facet filters")

    def json(self, path, server=None):
        server = server or self.server
        status, _, body = self.http(path, server=server, Authorization=f"Bearer {server.token}")
        assert status == 200, (path, status, body)
        return json.loads(body)

    def check_links_both_ways(self):
        browser = self.browser
        self.page(f"/object?path={P}&class=Note&key={ONE}", "Who wrote what")
        browser.find("main a.v.link").click()
        browser.until(lambda: "Bert Óskarsson" in browser.text("main"), "the link leads to nobody")
        browser.says("Reykjavík")
        browser.until(lambda: "Note.author" in browser.text(".linked"), "nothing links back")
        browser.find(".linked a").click()
        browser.until(lambda: "Note 1" in browser.text("main h2"), "the way back")
        self.page(f"/objects?path={P}&class=Note", "59 objects")
        browser.find('a[aria-label="History of 3"]').click()
        browser.shown("/object")
        browser.says("versions changed it", "#history")
        self.page(f"/object?path={P}&class=Note&key={ONE}", "Who wrote what")
        browser.driver.execute_cdp_cmd("Browser.grantPermissions", {
            "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": self.server.pages})
        browser.find("main .tools button").click()
        browser.says("Copied")
        copied = json.loads(browser.script("return navigator.clipboard.readText()"))
        assert copied["class"] == "Note" and copied["fields"]["author"] == {"link": ["Person", "bert"]}, copied

    def check_that_uploads_appear(self):
        browser = self.browser
        self.page(f"/objects?path={P}&class=Note", "59 objects")
        self.server.write("phone", [note(777, title="fresh from the phone")])
        browser.says("60 objects")
        self.page("/files", "Growth")
        self.server.write("phone", [note(777, title="fresh again")])
        browser.says("+ 1 version")
        self.page(f"/history?path={P}", "Note 777")
        assert browser.find("time").get_attribute("title").endswith(" UTC")
        self.server.write("phone", [["Note", {"int": "777"}, None]])
        browser.says("erased 1: Note 777")

    def check_texts_from_right_to_left(self):
        browser, kind, path = self.browser, "مهمة", '/"الحي القديم"'
        long, german = "الاتصال بالسباك غدًا الساعة العاشرة صباحًا ثم شراء الخبز من السوق القديم", "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk"
        title = {"name": "العنوان", "type": "string", "nullable": False}
        self.server.write("right", [
            {"class": kind, "kind": "top-level", "key": {"name": "_id", "type": "string", "nullable": False}, "properties": [title]},
            {"class": german, "kind": "top-level", "key": {"name": "_id", "type": "string", "nullable": False}, "properties": [title]},
            [kind, "م-3", {"العنوان": long}]], path=path)
        file = wait_for(lambda: self.json("/files.json?q=" + quote("القديم"))["files"], "the file is not listed")[0]["path"]
        place, key = quote(file, safe=""), quote(json.dumps("م-3"))
        # The place of one character of an element's text: its left and right end.
        character = ("const r = document.createRange(), t = document.createTreeWalker(document.querySelector(arguments[0]), NodeFilter.SHOW_TEXT).nextNode();"
                     "r.setStart(t, arguments[1]); r.setEnd(t, arguments[1] + 1); const b = r.getBoundingClientRect(); return [b.left, b.right]")
        self.page("/", "الحي القديم")
        self.page(f"/objects?path={place}&class={quote(kind)}", "1 object")
        assert browser.script(character, "main h1 bdi", 0)[0] < browser.script(character, "main h1 bdi", 3)[0], "a path begins at the left"
        browser.until(lambda: browser.all('.row .v.string'), "no row")
        cell = browser.script("const b = document.querySelector('.row .v.string').closest('.cell').getBoundingClientRect(); return [b.left, b.right]")
        first = browser.script(character, ".row .v.string bdi", 0)
        assert browser.script("const e = document.querySelector('.row .v.string bdi'); return e.scrollWidth > e.clientWidth"), "the text is to be too long"
        assert cell[0] <= first[0] and first[1] <= cell[1], (cell, first, "a text is cut at its end")
        browser.size(360, 740)
        assert browser.script("return document.querySelector('.classes bdi').getClientRects().length") == 1, "a short name stands in one line"
        browser.size(1280, 800)
        self.page(f"/object?path={place}&class={quote(kind)}&key={key}", "1 version changed it")
        assert f'\u2068"{kind}"\u2069[' in browser.script("return document.querySelector('.changes pre').textContent")
        self.page(f"/version?path={place}&version=1", "Instructions")
        assert f"\u2068{kind}\u2069[\u2068م-3\u2069]" in browser.script("return document.querySelector('.instructions').textContent")

    # MARK: History

    def check_history_and_explanation(self):
        browser = self.browser
        self.page(f"/history?path={P}", "An arm leaves")
        assert browser.all("svg.river .arm"), "no arms"
        browser.find(".stream .badge.merge").click()
        browser.shown("/version")
        browser.until(lambda: browser.text(".detail"), "no cell is explained")
        cell = browser.all("button.rule")[-1]
        cell.click()
        assert "Both set the value" in browser.text(".detail") and "discarded" in browser.text(".detail")
        assert cell.get_attribute("aria-pressed") == "true"
        number = int(browser.driver.current_url.split("version=")[1])
        data = self.json(f"/version.json?path={P}&version={number}")
        # An element of a list that was lost is no value that could be written again.
        assert [(value["field"], value["value"]) for value in data["lost"]] == [("title", "قائمة التسوق (tablet)")], data["lost"]
        browser.find(".lostvalues button").click()
        browser.until(lambda: browser.all("dialog[open]"), "nothing is asked")
        assert "wins over what is there" in browser.text("dialog")
        browser.find("dialog .danger").click()
        browser.until(lambda: "has the value" in browser.text("#notice"), "the value is not there")
        self.page(f"/object?path={P}&class=Note&key=%7B%22int%22%3A%222%22%7D", "قائمة التسوق (tablet)")
        browser.says("the server", ".blame")

    def check_time_travel(self):
        browser = self.browser
        self.page(f"/objects?path={P}&class=Note&at=4", "As it was at version 4")
        count = self.json(f"/objects.json?path={P}&class=Note&at=4")["count"]
        assert 0 < count < 59
        browser.says(f"{count} objects")
        browser.find('.time button[aria-label="One version on"]').click()
        browser.until(lambda: "at=5" in browser.driver.current_url, "one version on")
        browser.shown("/objects")
        browser.script("const s = document.querySelector('.time input'); s.value = 3; s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'))")
        browser.says("As it was at version 3")
        earlier = self.json(f"/objects.json?path={P}&class=Note&at=3")["count"]
        browser.says(f"{earlier} objects")
        browser.script("[...document.querySelectorAll('.time a')].find((a) => a.textContent.includes('different')).click()")
        browser.shown("/diff")
        browser.says("differ")
        assert "2 [home, urgent]" in browser.text() and '"list"' not in browser.text(), browser.text()
        shown = len(browser.all("article.difference"))
        assert shown == len(self.json(f"/diff.json?path={P}&from=3")["objects"]) > 10, shown
        self.page(f"/objects?path={P}&class=Note&at=999999")
        browser.says("This page cannot be shown")
        browser.console()

    def check_time_travel_by_time(self):
        browser, newest = self.browser, self.json(f"/head.json?path={P}")["version"]
        known = self.json(f"/moment.json?path={P}")
        assert known["version"] is None and known["oldest"]["version"] >= 1 and known["newest"]["time"] >= known["oldest"]["time"]
        times = [self.json(f"/moment.json?path={P}&version={version}")["moment"]["time"] for version in range(1, newest + 1)]
        assert times == sorted(times) and times[-1] == known["newest"]["time"]
        for moment in sorted({time + more for time in times for more in (-1, 0)}):
            if moment < known["oldest"]["time"]:
                continue
            found = self.json(f"/moment.json?path={P}&time={moment}")["version"]
            assert found == max(version for version, time in enumerate(times, 1) if time <= moment), moment
        status, _, body = self.http(f"/moment.json?path={P}&time={times[0] - 1}", Authorization=f"Bearer {self.server.token}")
        assert status == 404 and b"first one whose time is known" in body, (status, body)
        self.page(f"/objects?path={P}&class=Note&by=time", "objects")
        browser.until(lambda: browser.find(".time input").is_enabled(), "the times are not known")
        # The slider has a thousand places: the one of a version is at its time or just before the next one.
        browser.script("const s = document.querySelector('.time input'); s.value = 0; s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'))")
        first = max(version for version, time in enumerate(times, 1) if time == times[0])
        browser.until(lambda: f"at={first}" in browser.driver.current_url.split("&"), "the slider does not lead to the first version")
        browser.shown("/objects")
        assert "by=time" in browser.driver.current_url
        browser.until(lambda: browser.find(".time input").is_enabled(), "the times are not known")
        field = browser.find(".time input[type=datetime-local]")
        assert len(field.get_attribute("value")) >= 16
        # The end of the second in which the newest version came is now.
        browser.script("const f = document.querySelector('.time input[type=datetime-local]'); f.value = f.max; f.dispatchEvent(new Event('change'))")
        browser.until(lambda: "at=" not in browser.driver.current_url, "the last moment is not now")

    def check_the_diagram(self):
        browser = self.browser
        self.page(f"/file?path={P}", "Schema")
        edges = browser.script("return [...document.querySelectorAll('.diagram .edge')].map((e) => [e.querySelector('title').textContent, e.classList.contains('embedded')])")
        assert sorted(edges) == [["Note.author → Person", False], ["Person.address → Address", True]], edges
        # A line ends at the box of the class to which it leads.
        boxes = browser.script("return Object.fromEntries([...document.querySelectorAll('.diagram .box')].map((b) => [b.parentNode.querySelector('title').textContent, [b.x.baseVal.value, b.x.baseVal.value + b.width.baseVal.value]]))")
        assert boxes["Note"][1] < boxes["Person"][0] and boxes["Person"][1] < boxes["Address"][0], boxes
        browser.script("document.querySelector('.diagram a[aria-label=\"Objects of Person\"]').dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))")
        browser.shown("/objects")
        assert "class=Person" in browser.driver.current_url
        # Before the classes of the notes there were others: the schema is that of the version.
        self.page(f"/file?path={P}&at=0", "There were no classes at version 0")

    def check_edits(self):
        browser = self.browser
        whole, short = self.json(f"/edits.json?path={P}&limit=500"), self.json(f"/edits.json?path={P}&pause=1&limit=500")
        assert not whole["more"] and len(whole["edits"]) <= len(short["edits"])
        # Each version that changes something is in one edit.
        logged = self.json(f"/history.json?path={P}&limit=500")["versions"]
        changing = [version for version in logged if version["objects"] or version["schema"]]
        assert sum(edit["versions"] for edit in whole["edits"]) == len(changing) == sum(edit["versions"] for edit in short["edits"])
        self.page(f"/edits?path={P}", f"{len(whole['edits'])} edits" if len(whole["edits"]) <= 50 else "50 edits")
        browser.says("Person anna created")
        browser.script("const s = document.getElementById('pause'); s.value = '30'; s.dispatchEvent(new Event('change'))")
        browser.until(lambda: "pause=30" in browser.driver.current_url, "the pause is part of the address")
        self.page(f"/edits?path={P}&limit=1", "1 edit:")
        browser.script("[...document.querySelectorAll('.foot a')].find((a) => a.textContent === 'More').click()")
        browser.says("2 edits")
        assert "limit=2" in browser.driver.current_url

    def check_the_whole_river(self):
        browser, path = self.browser, quote('/"busy"', safe="")
        self.server.write("busy", [*SCHEMA, *[note(number, title=f"turn {number}") for number in range(1, 131)]], path='/"busy"', each=1)
        head = self.json(f"/head.json?path={path}")
        river = self.json(f"/river.json?path={path}&parts=50")
        assert head["version"] > 120 and len(river["parts"]) <= 50 and river["parts"][-1]["version"] == head["version"]
        assert sum(part["bytes"] for part in river["parts"]) == head["log_bytes"], (river, head)
        self.page(f"/history?path={path}", "An arm leaves")
        assert browser.all("svg.whole path.water")
        browser.script("const s = document.querySelector('.wholeriver input'); s.value = 40; s.dispatchEvent(new Event('change'))")
        browser.until(lambda: "before=40" in browser.driver.current_url, "the place is not part of the address")
        browser.until(lambda: browser.text(".stream .number") == "40", "the versions there are not shown")

    def check_that_answers_are_bounded(self):
        browser, path = self.browser, quote('/"large"', safe="")
        wide = {"class": "Wide", "kind": "top-level", "key": {"name": "id", "type": "int", "nullable": False}, "properties": [
            {"name": f"p{number}", "type": "string", "nullable": False} for number in range(60)]}
        self.server.write("large", [*SCHEMA, wide, note(1, title="long", tags={"list": ["x" * 10_000] * 600})], path='/"large"')
        self.server.write("large", [["Wide", {"int": str(number)}, {f"p{column}": "y" * 160 for column in range(60)}] for number in range(500)], path='/"large"')
        status, _, body = self.http(f"/object.json?path={path}&class=Note&key={ONE}", Authorization=f"Bearer {self.server.token}")
        tags = json.loads(body)["fields"]["tags"]
        assert status == 200 and len(body) < 5_000_000 and tags["count"] == 600 and 0 < len(tags["list"]) < 600, (status, len(body))
        status, _, body = self.http(f"/objects.json?path={path}&class=Wide&limit=500", Authorization=f"Bearer {self.server.token}")
        assert status == 200 and len(body) < 5_000_000 and 0 < len(json.loads(body)["rows"]) < 500, (status, len(body))
        self.page(f"/objects?path={path}&class=Wide&hide=" + ",".join(f"p{number}" for number in range(2, 60)), "500 objects")
        from selenium.webdriver.common.keys import Keys
        browser.find("[role=grid]").send_keys(Keys.END)
        browser.until(lambda: "yyy" in browser.text(".row.active"), "the last row is not shown")
        self.page(f"/object?path={path}&class=Note&key={ONE}", "list of 600")

    # MARK: People

    def check_sessions_and_clients(self):
        browser, server = self.browser, self.server
        command = [server.program, "client", "watch", "--data", str(server.folder / "tablet"), "--path", NOTES, "--url", server.url]
        watcher = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.page("/sessions")
            browser.until(lambda: browser.all("tbody tr"), "no session is shown")
            before = browser.text("tbody td")
            browser.find("tbody button").click()
            browser.says("Nothing is lost", "dialog")
            browser.find("dialog .danger").click()
            browser.until(lambda: "Disconnected." in browser.text("#notice"), "not disconnected")
            assert before
        finally:
            watcher.terminate()
            watcher.wait()
        self.page(f"/clients?path={P}", "Behind")
        browser.find('button[aria-label="Expire: client 3"]').click()
        browser.says("starts over with a new file", "dialog")
        browser.find("dialog .buttons button").click()
        browser.until(lambda: not browser.all("dialog"), "Cancel does not cancel")
        assert "expired" not in browser.text("tbody")
        browser.find('button[aria-label="Expire: client 3"]').click()
        browser.until(lambda: browser.all("dialog .danger"), "nothing is asked").__getitem__(0).click()
        browser.until(lambda: "expired" in browser.text("tbody"), "the client has not expired")

    # MARK: Hostile data

    def check_that_nothing_runs(self):
        browser, server, written = self.browser, self.server, []
        for number, text in enumerate(payloads.MARKUP):
            name, path, lines = payloads.lines(number, text)
            server.write(f"hostile{number}", lines, path=path)
            listed = wait_for(lambda: self.json(f"/files.json?q={quote(name)}")["files"], "the file is not listed")
            written.append((name, listed[0]["path"]))
        for name, _ in written:
            user = {"app": "dev", "identities": [{"provider": "custom-token", "name": name}], "data": {name: name}}
            status, _, answer = self.http("/v1/users/add", method="POST", body=json.dumps(user).encode(), Authorization=f"Bearer {server.token}")
            assert status == 201, (name, answer)
        browser.console()
        users = {user["identities"][0]["name"]: user["user"] for user in self.json("/users.json")["users"]}
        names = [name for name, _ in written]
        self.page("/users", "Logs in as")
        for name in names:
            browser.says(name)
        self.page("/files", "Versions")
        for name in names:
            browser.says(name)
        for name, path in written:
            file, key, kind = quote(path, safe=""), quote(json.dumps(name)), quote(name)
            for address in [f"/file?path={file}", f"/objects?path={file}&class={kind}", f"/object?path={file}&class={kind}&key={key}",
                            f"/version?path={file}&version=1", f"/user?user={users[name]}"] + (
                                [f"/history?path={file}", f"/diff?path={file}&from=0"] if name.endswith(("0", "1")) else []):
                browser.visit(address)
                browser.says(name)
                # "<s>" and the like would be elements; of those that are there, all are the inspector's own.
                strange = browser.script("return [...document.querySelectorAll('script:not([src^=\"/assets/\"]), iframe, img, object, embed, main b[onfocus], main s, [onerror], [onload], a[href^=javascript]')].map((e) => e.outerHTML)")
                assert not strange, (address, strange)
            browser.visit(f"/objects?path={file}&class={kind}&filter={quote(name)}")
            browser.until(lambda: browser.text("#filter-error"), "the mistake is not shown")
        assert browser.script("return window.ran") is None
        # The last filters are mistakes, which are the only errors in the console.
        others = [message for message in browser.console() if "status of 400" not in message]
        assert not others, others

    # MARK: The server

    def check_that_the_page_comes_back(self):
        browser, server = self.browser, self.server
        self.page(f"/objects?path={P}&class=Note", "objects")
        server.stop()
        browser.until(lambda: "does not answer" in browser.text("#notice"), "nobody notices")
        server.inspector = "read-only"
        server.start()
        browser.until(lambda: browser.script("return document.getElementById('notice').hidden"), "it does not come back")
        browser.says("read only", "#bar")
        browser.console()

    def check_that_a_certificate_that_ends_soon_is_a_warning(self):
        folder = self.server.folder / "tls"
        folder.mkdir()
        certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "5", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        server = Server(self.server.program, folder, options=("--dev", "--tls-certificate", certificate, "--tls-key", key))
        try:
            warning, = [each for each in self.json("/overview.json", server)["warnings"] if "certificate" in each["text"]]
            assert warning["text"] in ("The certificate ends in 4 days.", "The certificate ends in 5 days."), warning
            assert "Put a new one in its place" in warning["advice"], warning
        finally:
            server.stop()
        assert not [each for each in self.json("/overview.json")["warnings"] if "certificate" in each["text"]]

    def check_that_it_only_looks(self):
        browser, cookie, own = self.browser, self.cookie(), self.server.pages
        self.page(f"/clients?path={P}", "Behind")
        assert all(not button.is_enabled() for button in browser.all("tbody button"))
        body = json.dumps({"path": NOTES, "client": 2}).encode()
        for path in ["/expire", "/disconnect", "/revoke", "/disable", "/enable", "/restore"]:
            status, _, answer = self.http(path, method="POST", body=body, Cookie=cookie, Origin=own, X_Inspector="1")
            assert status == 403 and b"ReadOnly" in answer, (path, status, answer)
        # A trial changes nothing, whatever else the body says.
        for body in [b'{"path":"%s","client":2,"dry_run":true,"dry_run":false}', b'{"path":"%s","client":2,"dry_run":"true"}', b'{"path":"%s","client":2,"dry_run":1}']:
            status, _, answer = self.http("/expire", method="POST", body=body.replace(b"%s", b"/%22notes%22"), Cookie=cookie, Origin=own, X_Inspector="1")
            assert status in (400, 403), (body, status, answer)
        browser.find("#bar button").click()
        browser.shown("/log-in")
        assert self.http("/files.json", Cookie=cookie)[0] == 401, "the cookie is worth something after the log-out"
        server = self.server
        server.stop()
        server.start()
        assert self.http("/files.json", Cookie=cookie)[0] == 401, "the log-out is forgotten with a restart"
        assert (server.data / "inspector-log-outs").stat().st_mode & 0o777 == 0o600

    def check_users_with_the_right(self):
        browser, server = self.browser, self.server

        def admin(path, **body):
            status, _, answer = self.http(path, method="POST", body=json.dumps(body).encode(), Authorization=f"Bearer {server.token}")
            assert status in (200, 201), (path, status, answer)
        admin("/v1/users/add", app="tasks", email="anna@example.com", password="correct horse", user=ADMINISTRATOR)
        admin("/v1/users/add", app="tasks", email="bert@example.com", password="battery staple")

        def log_in(email, password):
            for name, value in [("#email", email), ("#password", password)]:
                browser.find(name).clear()
                browser.find(name).send_keys(value)
            browser.all("form.login button")[1].click()
        browser.open(f"{server.pages}/users", "/log-in")
        accessibility.check_names(browser, "/log-in")
        accessibility.check_contrast(browser, "/log-in")
        refusal = "the address and the password are not those of a user who may log in here"
        for email, password in [("anna@example.com", "wrong horse"), ("bert@example.com", "battery staple"), ("nobody@example.com", "x")]:
            browser.script("document.querySelector('#email-error').textContent = ''")
            log_in(email, password)
            browser.until(lambda: browser.text("#email-error") == refusal, f"{email} is refused in other words")
        assert not browser.driver.get_cookies()
        log_in("ANNA@example.com", "correct horse")
        browser.shown("/users")
        browser.says(f"user {ADMINISTRATOR}", "#bar")
        cookie = self.cookie()
        assert json.loads(self.http("/session.json", Cookie=cookie)[2])["user"] == ADMINISTRATOR
        assert self.http("/files.json", Cookie=cookie)[0] == 200 and self.http("/v1/files", Cookie=cookie)[0] == 401
        server.stop()
        server.start()
        assert self.http("/files.json", Cookie=cookie)[0] == 200, "the log-in does not outlive a restart"
        admin("/v1/users/revoke", user=ADMINISTRATOR)
        assert self.http("/files.json", Cookie=cookie)[0] == 401, "the log-in outlives a revocation"
        browser.open(f"{server.pages}/users", "/log-in")
        log_in("anna@example.com", "correct horse")
        browser.shown("/users")
        cookie = self.cookie()
        browser.script("[...document.querySelectorAll('#bar button')].at(-1).click()")
        browser.shown("/log-in")
        assert self.http("/files.json", Cookie=cookie)[0] == 401, "the cookie is worth something after the log-out"
        trail = [json.loads(line) for line in (server.data / "audit.log").read_text().splitlines()]
        logins = [line for line in trail if line["what"] == "log-in"]
        assert len(logins) == 2 and logins[0]["user"] == ADMINISTRATOR and ADMINISTRATOR in logins[0]["by"], trail
        browser.console()

    # MARK: As one user

    def check_what_users_see(self):
        folder = self.server.folder / "roles"
        folder.mkdir()
        roles = Roles(self.server.program, folder)
        try:
            roles.fill()
            self.compare_with_what_clients_download(roles)
            self.compare_with_what_partitions_allow(roles)
            self.browser.log_in(roles.server)
            self.look_as_users(roles)
            self.see_why_a_write_was_refused(roles)
        finally:
            roles.server.stop()

    def seen(self, roles, name, client=""):
        """The objects that the inspector shows as a user, or as one of the user's clients."""
        answer = self.json(f"/objects.json?path=team&class=Task&limit=500&as={roles.users['team', name]}&client={client}", roles.server)
        assert answer["complete"] and len(answer["rows"]) == answer["count"]
        columns = [each["name"] for each in answer["class"]["properties"]]
        return {json.dumps(row["key"]): dict(zip(columns, row["values"])) for row in answer["rows"]}

    def compare_with_what_clients_download(self, roles):
        queries = {"phone": "TRUEPREDICATE", "tablet": "public == true", "desk": "TRUEPREDICATE", "watch": "TRUEPREDICATE"}
        clients = self.json("/clients.json?path=team", roles.server)["clients"]

        def client(name, device):
            found = [each["client"] for each in clients if each["user"] == roles.users["team", name] and queries[device] in each["queries"]["Task"]]
            assert len(found) == 1, (name, device, clients)
            return found[0]

        def compare(*devices):
            counts = []
            for name, device in devices:
                shown, had = self.seen(roles, name, client(name, device)), roles.downloaded(name, device, "team", "Task")
                assert shown == had, (name, device, sorted(set(shown) ^ set(had)))
                counts.append(len(had))
            return counts
        assert compare(("ada", "desk"), ("mia", "phone"), ("mia", "tablet"), ("gus", "watch")) == [60, 30, 15, 15]
        assert len(self.seen(roles, "mia")) == 30 and len(self.seen(roles, "gus")) == 15
        # With other data another role applies, and what is shown follows as clients do.
        roles.set_data("team", "mia")
        roles.set_data("team", "gus", team="blue")
        assert compare(("mia", "phone"), ("mia", "tablet"), ("gus", "watch")) == [15, 15, 30]
        roles.set_data("team", "mia", team="red")
        roles.set_data("team", "gus")
        status, _, body = self.http(f"/objects.json?path=team&class=Task&as={roles.users['team', 'gus']}&client={client('mia', 'phone')}",
                                    server=roles.server, Authorization=f"Bearer {roles.server.token}")
        assert status == 404 and b"client of the user" in body, (status, body)

    def compare_with_what_partitions_allow(self, roles):
        garden = f'town/"garden of {roles.users["town", "zoe"]}"'
        expected = {("zoe", 'town/"hall"'): ("none", None), ("tom", 'town/"hall"'): ("write", 3), ("zoe", 'town/"square"'): ("read", 1),
                    ("zoe", garden): ("write", 2), ("tom", garden): ("none", None)}
        flower = json.dumps({"class": "Flower", "kind": "top-level", "key": {"name": "_id", "type": "int", "nullable": False}, "properties": []})
        for number, ((name, path), (permission, rule)) in enumerate(expected.items()):
            reads = roles.client("read", name, f"{name}{number}", path, runs=roles.run)
            assert (reads.returncode == 0) == (permission != "none"), (name, path, reads)
            if permission != "none":
                line = flower + f'\n["Flower",{{"int":"{number}"}},{{}}]\n'
                writes = roles.client("write", name, f"{name}{number}", path, text=line, runs=roles.run)
                assert (writes.returncode == 0) == (permission == "write"), (name, path, writes)
            shown, = self.json(f"/as.json?path={quote(path)}&as={roles.users['town', name]}", roles.server)["permissions"]
            assert (shown["permission"], shown["rule"]) == (permission, rule), shown
            assert rule is None or f"right: {permission}" in shown["text"], shown

    def see_why_a_write_was_refused(self, roles):
        line = json.dumps(["Task", {"int": "4"}, {"title": "mine"}]) + "\n"
        roles.client("write", "mia", "phone", "team", text=line, runs=roles.run)
        version = self.json("/head.json?path=team", roles.server)["version"]
        self.browser.open(f"{roles.server.pages}/version?path=team&version={version}", "/version")
        self.browser.says('Task 4: a user with the role "member" may not change the object as it was')
        self.browser.says('{"team":{"$eq":"red"}}')

    def look_as_users(self, roles):
        browser, pages = self.browser, roles.server.pages

        def look(path, says):
            browser.open(pages + path, path.split("?")[0])
            browser.says(says)
        ident = {name: user for (_, name), user in roles.users.items()}
        for name, role, count in [("ada", "admin", 60), ("mia", "member", 30), ("gus", "guest", 15)]:
            look(f"/objects?path=team&class=Task&as={ident[name]}", f"{count} objects")
            browser.find(".why summary").click()
            browser.says(f"role {role} applies", ".why")
            kept = browser.script("return [...document.querySelectorAll('.tabs a, .classes a, .row a')].filter((a) => !a.href.includes('as=' + arguments[0])).map((a) => a.href)", ident[name])
            assert not kept, kept
        browser.says('{"public":{"$eq":true}}', ".why")
        browser.says("before it these do not: admin, member", ".why")
        look(f"/object?path=team&class=Task&key={ONE}&as={ident['gus']}", "The user does not see this object")
        browser.says('role guest refuses it by {"public":{"$eq":true}}')
        accessibility.check_names(browser, "a hidden object")
        accessibility.check_contrast(browser, "a hidden object")
        browser.size(360, 740)
        accessibility.check_room(browser, "a hidden object", 360)
        browser.size(1280, 800)
        look(f"/object?path=team&class=Task&key={quote(json.dumps({'int': '3'}))}&as={ident['mia']}", "The user may read this object: role member lets it be read")
        browser.says("does not have it: it is not among (public == true)")
        # Only what the user sees links to it.
        linked = self.json(f"/links.json?path=team&class=Task&key={quote(json.dumps({'int': '3'}))}&as={ident['gus']}", roles.server)["links"]
        assert [each["key"] for each in linked] == [{"int": "4"}], linked
        facets = self.json(f"/facets.json?path=team&class=Task&field=team&as={ident['mia']}", roles.server)["facets"]
        assert facets[0] == {"value": "red", "count": 20} and sum(each["count"] for each in facets) == 30, facets
        look(f"/file?path=team&as={ident['mia']}", "no role applies: nothing is allowed")
        accessibility.check_keyboard(browser, "the roles of a user")
        browser.find('.tabs a[href^="/history"]').click()
        browser.shown("/history")
        browser.says("this page has no view of one user", ".viewer")
        look("/clients?path=team", "asks for ")
        look("/objects?path=team&class=Task", "60 objects")
        browser.says("as the operator sees it", ".viewer")
        browser.find(".chooser input").send_keys(ident["mia"] + "\n")
        browser.says("30 objects")
        assert f"as={ident['mia']}" in browser.driver.current_url
        browser.script("[...document.querySelectorAll('.viewer a')].find((a) => a.textContent.startsWith('client')).click()")
        browser.until(lambda: "client=" in browser.driver.current_url, "the client is not part of the address")
        look(f"/objects?path={quote('town/')}%22hall%22&as={ident['zoe']}", "may not read it")
        browser.says("0 objects")
        look(f"/objects?path={quote('town/')}%22hall%22&as={ident['tom']}", "1 object")
        look(f"/objects?path=team&as={ident['zoe']}", "the user belongs to the app town")
        browser.open(pages + "/objects?path=team&as=nobody")
        browser.says("there is no user nobody")
        browser.console()

    # MARK: Figures

    def check_what_is_loaded(self):
        browser = self.browser
        browser.log_in(self.server)
        browser.requests()
        times, sizes = [], 0
        browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        for turn in range(20):
            self.page("/", "Serving")
            times.append(browser.script(
                "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()"))
            if turn == 0:
                sizes = browser.script(
                    "return performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
                    ".reduce((sum, each) => sum + each.transferSize, 0)")
        elsewhere = [url for url in browser.requests() if not url.startswith(self.server.pages + "/")]
        assert not elsewhere, elsewhere
        assert 0 < sizes < 200_000, sizes
        self.figures.update(bytes=sizes, elsewhere=0, first_view_ms=round(statistics.median(times), 1))

    # MARK: A world that plays

    def check_a_world_that_plays(self):
        from selenium.webdriver.common.keys import Keys
        browser, folder, lab = self.browser, self.server.folder, str(pathlib.Path(self.server.program).with_name("anabranch-lab"))
        recording, hostile = folder / "world.jsonl", folder / "hostile.jsonl"
        # Hashes differ from process to process, and recordings do not.
        for path in (hostile, recording):
            subprocess.run([lab, "simulate", "--seed", "7", "--record", str(path)], check=True)
        assert recording.read_bytes() == hostile.read_bytes()
        lines = recording.read_text().splitlines()
        events, total = [json.loads(line) for line in lines[1:-1]], len(lines) - 2
        self.page("/world", "anabranch-lab simulate --seed 7 --record world.jsonl")
        accessibility.check_names(browser, "/world")
        hostile.write_text("hello\n")
        browser.find("input[type=file]").send_keys(str(hostile))
        browser.says("cannot be played: line 1", "#notice")
        browser.find("input[type=file]").send_keys(str(recording))
        browser.says("The world of seed 7")
        browser.says(f"0 of {total:,}")
        assert "seed=7" in browser.driver.current_url and browser.text(".plan") == json.loads(lines[0])["plan"]

        def press(name):
            browser.script("[...document.querySelectorAll('.controls button')].find((each) => each.textContent === arguments[0]).click()", name)

        def at(count):
            browser.says(f"{count:,} of {total:,}", ".clocktext")
        press("Step")
        at(1)
        browser.find("body").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
        at(2)
        browser.until(lambda: "at=2" in browser.driver.current_url, "the place is not part of the address")
        press("Next merge")
        merge = next(number for number, event in enumerate(events) if event[1] == "version" and event[7])
        at(merge + 1)
        browser.says(events[merge][7]["effects"][0]["sentence"], "div.merged")
        press("Next fault")
        browser.until(lambda: browser.text(".said"), "no words for a fault")
        # Somewhere in between messages are on their way, and go on while it plays.
        crowded = next(number for number, event in enumerate(events) if number > total // 3 and event[1] == "say")
        move = "const s = document.querySelector('.world > input[type=range]'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))"
        browser.script(move, crowded + 1)
        at(crowded + 1)
        assert browser.script("return document.querySelectorAll('.lanes .message:not([visibility=hidden])').length") > 0
        assert browser.script("return document.querySelectorAll('.lanes .arm').length") == len(json.loads(lines[0])["clients"])
        accessibility.check_names(browser, "a world")
        accessibility.check_contrast(browser, "a world")
        accessibility.check_keyboard(browser, "a world")
        browser.script("document.activeElement.blur()")
        browser.find("body").send_keys(Keys.SPACE)
        browser.until(lambda: browser.script("return Number(document.querySelector('.world > input[type=range]').value)") > crowded + 3, "it does not play")
        browser.find("body").send_keys(Keys.SPACE)
        browser.until(lambda: browser.text(".play") == "Play", "it does not pause")
        browser.scheme("dark", motion="reduce")
        browser.script(move, total)
        at(total)
        browser.says("have version", ".ended")
        assert browser.script("return [...document.querySelectorAll('.lanes .place')].every((each) => each.textContent.startsWith('✓'))")
        accessibility.check_contrast(browser, "a world in the dark")
        for width in (360, 3840):
            browser.size(width, 900)
            browser.until(lambda: browser.script("return document.querySelector('.lanes').clientWidth") <= width, "the picture is too wide")
            accessibility.check_room(browser, "a world", width)
        browser.scheme("light")
        browser.size(1280, 800)
        # What a file says is text.
        text = "<img src=x onerror='window.ran=1'>"
        hostile.write_text("\n".join([lines[0], json.dumps([0, "error", 0, 1, text]), json.dumps([0, "happens", text]), lines[-1]]) + "\n")
        browser.find("input[type=file]").send_keys(str(hostile))
        browser.says("0 of 2")
        press("Step")
        browser.says(text, ".said")
        press("Step")
        browser.says(text, ".said")
        assert browser.script("return window.ran") is None and not browser.all("main img")
        # A link alone cannot hold a recording: it says how to make it.
        browser.driver.refresh()
        browser.says("anabranch-lab simulate --seed 7 --record world.jsonl")
        others = [message for message in browser.console() if "status of 4" not in message]
        assert not others, others
        self.play_from_links(lab, total)

    def play_from_links(self, lab, total):
        browser = self.browser
        player = subprocess.Popen([lab, "simulate", "--seed", "7", "--play"], stdout=subprocess.PIPE, text=True)
        try:
            link = player.stdout.readline().strip()
            assert link.startswith("http://127.0.0.1:") and link.endswith("/world?seed=7"), link
            browser.open(f"{link}&at=200&speed=16", "/world")
            browser.says(f"200 of {total:,}")
            assert "Overview" not in browser.text("#bar") and "Log out" not in browser.text("#bar")
            browser.find(".seed input").clear()
            browser.find(".seed input").send_keys("8\n")
            browser.says("The world of seed 8")
            browser.driver.back()
            browser.says("The world of seed 7")
            pages = link.split("/world")[0]
            browser.open(f"{pages}/world?seed=8&faults=nothing", "/world")
            browser.says("There is no fault 'nothing'")
            browser.open(pages + "/", "/world")
            browser.says("Play it")

            def status(path, **headers):
                request = urllib.request.Request(pages + path, headers={name.replace("_", "-"): value for name, value in headers.items()})
                try:
                    with urllib.request.urlopen(request) as answer:
                        return answer.status, answer.headers
                except urllib.error.HTTPError as error:
                    return error.code, error.headers
            assert "default-src 'none'" in status("/world")[1]["Content-Security-Policy"]
            assert status("/world.jsonl?seed=7")[0] == 200
            assert status("/world.jsonl?seed=7", Host="evil.example")[0] == 403
            assert status("/world.jsonl?seed=7", Sec_Fetch_Site="cross-site")[0] == 403
            assert status("/world.jsonl?seed=x")[0] == 400 and status("/overview.json")[0] == 404
            browser.console()
        finally:
            player.terminate()
            assert player.wait(20) in (0, -15), player.returncode


def run(program):
    with tempfile.TemporaryDirectory(prefix="anabranch-inspector") as folder:
        checks, failed = Checks(program, folder), 0
        try:
            fill(checks.server)
            checks.browser = Browser()
            for name in [name for name in Checks.__dict__ if name.startswith("check_")]:
                start = time.monotonic()
                try:
                    getattr(checks, name)()
                    print(f"ok {name[6:].replace('_', ' ')} ({time.monotonic() - start:.1f} s)", flush=True)
                except Exception:
                    failed += 1
                    print(f"FAILED {name[6:].replace('_', ' ')}\n{traceback.format_exc()[-3000:]}", flush=True)
        finally:
            if checks.browser:
                checks.browser.quit()
            checks.server.stop()
        print(json.dumps(checks.figures))
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run(program_from(sys.argv[1])))
