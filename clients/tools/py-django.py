"""Django 5: its own applications' migrations and those of a project, the ORM, the admin's pages, inspectdb."""

import concurrent.futures
import datetime
import decimal
import io
import os
import subprocess
import sys
import tempfile

try:
    import django
    import psycopg
except ImportError:
    print("Django is not installed (pip install django psycopg)")
    sys.exit(77)

FIRST = '''
import uuid
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

class Author(models.Model):
    name = models.CharField(max_length=40, unique=True)
    born = models.DateField(null=True)
    class Meta:
        ordering = ["name"]

class Tag(models.Model):
    word = models.SlugField(primary_key=True)

class Post(models.Model):
    author = models.ForeignKey(Author, models.CASCADE, related_name="posts")
    tags = models.ManyToManyField(Tag)
    title = models.TextField(db_index=True)
    printed = models.BooleanField(default=False)
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True)
    weight = models.FloatField(db_default=0.5)
    key = models.UUIDField(default=uuid.uuid4, editable=False)
    meta = models.JSONField(default=dict)
    raw = models.BinaryField(null=True)
    words = ArrayField(models.CharField(max_length=9), null=True)
    took = models.DurationField(null=True)
    alarm = models.TimeField(null=True)
    seen = models.PositiveSmallIntegerField(default=0)
    written = models.DateTimeField(auto_now_add=True)
    class Meta:
        indexes = [models.Index(fields=["author", "-written"], name="post_by_author")]
        constraints = [
            models.UniqueConstraint(fields=["author", "title"], name="post_once"),
            models.CheckConstraint(condition=Q(price__gte=0), name="post_price"),
        ]
'''

# The differences from the first: a renamed field, other types, defaults and limits, one field and
# one model more, one index less.
SECOND = FIRST.replace("title = models.TextField(db_index=True)", "title = models.CharField(max_length=200)") \
    .replace("max_digits=8, decimal_places=2, null=True", "max_digits=12, decimal_places=3, default=0") \
    .replace("seen = models.PositiveSmallIntegerField(default=0)",
        "seen = models.BigIntegerField(default=0, db_comment='by people')\n    rank = models.IntegerField(default=7)") \
    .replace('models.ForeignKey(Author, models.CASCADE, related_name="posts")',
        'models.ForeignKey(Author, models.PROTECT, related_name="posts", null=True)') \
    .replace('name="post_price"', 'name="post_price_is_right"') + '''
    gross = models.GeneratedField(expression=F("weight") * 2, db_persist=True, output_field=models.FloatField())

class Comment(models.Model):
    post = models.ForeignKey(Post, models.CASCADE)
    answers = models.ForeignKey("self", models.SET_NULL, null=True)
    text = models.TextField()
    class Meta:
        db_table_comment = "what readers say"
'''

SETTINGS = f"""
SECRET_KEY = "secret"
INSTALLED_APPS = ["django.contrib." + name for name in ("admin", "auth", "contenttypes", "sessions", "messages",
    "sites", "flatpages", "redirects", "postgres")] + ["shop"]
DATABASES = {{"default": {{
    "ENGINE": "django.db.backends.postgresql", "NAME": "{os.environ['PGDATABASE']}", "USER": "{os.environ['PGUSER']}",
    "HOST": "{os.environ['PGHOST']}", "PORT": "{os.environ['PGPORT']}", "OPTIONS": {{"options": "-c search_path=django"}}}}}}
CACHES = {{"default": {{"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "cached"}}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware", "django.contrib.messages.middleware.MessageMiddleware"]
TEMPLATES = [{{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {{
    "context_processors": ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages"]}}}}]
ROOT_URLCONF = "urls"
STATIC_URL = "/static/"
ALLOWED_HOSTS = ["testserver"]
USE_TZ = True
SITE_ID = 1
"""

FILES = {
    "settings.py": SETTINGS,
    "urls.py": "from django.contrib import admin\nfrom django.urls import path\nurlpatterns = [path('admin/', admin.site.urls)]",
    "shop/__init__.py": "",
    "shop/admin.py": "from django.contrib import admin\nfrom shop.models import Post\n"
        "@admin.register(Post)\nclass Posts(admin.ModelAdmin):\n    list_display = ['title', 'author', 'price']\n"
        "    list_filter = ['printed', 'written']\n    search_fields = ['title', 'author__name']\n    date_hierarchy = 'written'\n",
    "shop/models.py": FIRST,
    "shop/migrations/__init__.py": "",
}


def write(folder, files):
    for name, text in files.items():
        os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)


def manage(folder, *words):
    """In a process of its own, because the classes change in between."""
    command = [sys.executable, "-m", "django", *words]
    path = dict(os.environ, PYTHONPATH=folder, DJANGO_SETTINGS_MODULE="settings")
    done = subprocess.run(command, cwd=folder, env=path, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr[-1500:]}")
    return done.stdout


def migrations(folder):
    """Up, further with rows, back, and up again; nothing is left to migrate then."""
    manage(folder, "makemigrations", "shop", "--name", "first")
    manage(folder, "migrate")
    manage(folder, "shell", "-c", "from shop.models import *\n"
        "ann = Author.objects.create(name='Ann')\nPost.objects.create(author=ann, title='a post', price='1.25', seen=3)")
    write(folder, {"shop/models.py": SECOND})
    manage(folder, "makemigrations", "shop", "--name", "second", "--noinput")
    manage(folder, "migrate")
    manage(folder, "migrate", "shop", "0001")
    manage(folder, "migrate", "shop")
    manage(folder, "makemigrations", "--check", "--dry-run")
    manage(folder, "migrate", "--check")


def same(found, wanted):
    assert found == wanted, f"found {found!r} instead of {wanted!r}"


def rows_of_all_kinds():
    same(list(Post.objects.values_list("title", "price", "seen", "rank", "gross")),
        [("a post", decimal.Decimal("1.250"), 3, 7, 1.0)])
    Post.objects.all().delete()
    bob = Author.objects.create(name="Bob", born=datetime.date(1980, 1, 31))
    post = Post.objects.create(author=bob, title="one", price=decimal.Decimal("1.5"), raw=b"\x00\xff",
        meta={"a": [1, {"b": None}]}, words=["it's", None], took=datetime.timedelta(days=400, microseconds=7),
        alarm=datetime.time(7, 30, 0, 5))
    same((post.weight, post.gross), (0.5, 1.0))
    found = Post.objects.get(pk=post.pk)
    for name in ("key", "raw", "meta", "words", "took", "alarm", "written"):
        value = getattr(found, name)
        same(bytes(value) if name == "raw" else value, getattr(post, name))
    post.tags.set([Tag.objects.create(word=word) for word in ("red", "green")])
    post.tags.add(*Tag.objects.all())
    same(sorted(post.tags.values_list("word", flat=True)), ["green", "red"])
    same(Author.objects.get_or_create(name="Bob")[1], False)
    same(Author.objects.update_or_create(name="Cid", defaults={"born": "1999-12-31"})[1], True)


def many_rows():
    authors = Author.objects.bulk_create([Author(name=f"author {n:03}") for n in range(100)], batch_size=40)
    assert all(author.pk for author in authors)
    Post.objects.bulk_create([Post(author=authors[n % 100], title=f"post {n}", price=n, rank=n % 5,
        meta={"n": n, "even": n % 2 == 0}, words=[f"w{n % 3}"], printed=n % 4 > 0) for n in range(1000)], batch_size=300)
    Tag.objects.bulk_create([Tag(word="red"), Tag(word="blue")], ignore_conflicts=True)
    Author.objects.bulk_create([Author(name="author 000", born="2000-01-01")], update_conflicts=True,
        unique_fields=["name"], update_fields=["born"])
    same(Author.objects.get(name="author 000").born, datetime.date(2000, 1, 1))
    some = list(Post.objects.filter(title__startswith="post 1").order_by("id"))
    for post in some:
        post.seen, post.meta = post.id, dict(post.meta, touched=True)
    same(Post.objects.bulk_update(some, ["seen", "meta"], batch_size=50), len(some))
    same(Post.objects.filter(meta__touched=True).count(), len(some))
    # A server-side cursor, in portions.
    same(sum(1 for _ in Post.objects.order_by("id").iterator(chunk_size=90)), 1001)
    same(sum(1 for _ in Post.objects.prefetch_related("tags").iterator(chunk_size=400)), 1001)


def questions():
    per_author = Author.objects.annotate(n=Count("posts"), most=Max("posts__price")).filter(n__gt=5)
    same(per_author.order_by("-most").values_list("name", "n", "most").first(), ("author 099", 10, decimal.Decimal(999)))
    same(Post.objects.aggregate(Sum("price"), Avg("rank"), n=Count("author", distinct=True))["n"], 101)
    same(Post.objects.filter(Q(rank=1) & ~Q(printed=True) | Q(title="one")).count(), 51)
    same(Post.objects.filter(meta__n__gte=990, meta__has_key="even", meta__contains={"even": True}).count(), 5)
    same(Post.objects.filter(words__contains=["w1"]).count(), 333)
    same(Post.objects.filter(words__overlap=["w1", "w2"], words__len=1, words__0="w2").count(), 333)
    same(Post.objects.filter(author__name__icontains="AUTHOR 00", title__regex=r"^post \d+$").count(), 100)
    same(Post.objects.filter(title__iexact="POST 7", title__in=["post 7", "x"], rank__range=(1, 3)).count(), 1)
    same(Post.objects.filter(written__year=datetime.date.today().year, written__date__gte="2020-01-01").count(), 1001)
    same(len(Post.objects.annotate(day=TruncMonth("written"), h=ExtractHour("written")).values("day").annotate(n=Count("*"))), 1)
    same(list(Post.objects.dates("written", "year"))[0].year, datetime.date.today().year)
    newest = Post.objects.filter(author=OuterRef("pk")).order_by("-price").values("title")[:1]
    same(Author.objects.annotate(newest=Subquery(newest)).get(name="author 007").newest, "post 907")
    same(Author.objects.filter(Exists(Post.objects.filter(author=OuterRef("pk"), rank=3))).count(), 20)
    ranked = Post.objects.annotate(place=Window(RowNumber(), partition_by="rank", order_by=F("price").desc()))
    same(ranked.filter(place=1).count(), 6)
    same(Post.objects.annotate(kind=Case(When(rank__lt=2, then=Value("low")), default=Value("high")))
        .values("kind").annotate(n=Count("id")).order_by("kind").values_list("kind", "n")[0], ("high", 601))
    same(Post.objects.values_list("rank").union(Post.objects.filter(rank=1).values_list("rank")).count(), 6)
    same(Post.objects.annotate(both=Concat("title", Value(" by "), "author__name"), l=Length("title"))
        .filter(l=8, both__endswith="author 000").count(), 9)
    same(Post.objects.select_related("author").order_by(F("author__born").desc(nulls_last=True), "id")[3].author.name, "author 000")
    same(Author.objects.aggregate(words=ArrayAgg("name", ordering="name"), all=StringAgg("name", Value(","), ordering="name"))
        ["words"][:2], ["Ann", "Bob"])
    same(Post.objects.distinct("rank").order_by("rank", "-price").values_list("title", flat=True)[0], "post 995")
    same(Post.objects.annotate(soon=F("written") + datetime.timedelta(days=1)).filter(soon__gt=Now()).count(), 1001)
    same(Post.objects.filter(rank=2).explain()[:3] != "", True)


def writers():
    same(Post.objects.filter(rank=4).update(price=F("price") + 1, seen=F("seen") + F("rank")), 200)
    same(Post.objects.filter(author__name="author 001").update(meta={"none": None}), 10)
    try:
        with transaction.atomic():
            Author.objects.create(name="Dora")
            with transaction.atomic():
                Author.objects.create(name="Ann")
    except IntegrityError as error:
        assert "shop_author_name" in str(error), error
    same(Author.objects.filter(name="Dora").exists(), False)
    with transaction.atomic():
        list(Post.objects.select_for_update(skip_locked=True, of=("self",)).select_related("author").filter(rank=1)[:5])
        list(Author.objects.select_for_update(nowait=True, no_key=True)[:5])
        try:
            with transaction.atomic():
                Post.objects.create(author=Author.objects.first(), title="cheap", price=-1)
        except IntegrityError as error:
            assert "post_price_is_right" in str(error), error
        Comment.objects.create(post=Post.objects.first(), text="first")
        Comment.objects.create(post=Post.objects.first(), text="no, I am", answers=Comment.objects.get())
    same(Post.objects.filter(pk=Post.objects.earliest("id").pk).delete()[1], {"shop.Comment": 2, "shop.Post_tags": 2, "shop.Post": 1})
    try:
        Author.objects.get(name="author 003").delete()
    except ProtectedError:
        pass
    with connection.cursor() as cursor:
        cursor.execute("select name from shop_author where id = any(%s)", [[1]])
        same(cursor.fetchall(), [("Ann",)])
    same(Post.objects.raw("select id, title from shop_post where title = %s", ["post 5"])[0].rank, 0)

    def one_more(_):
        with transaction.atomic():
            tag = Tag.objects.select_for_update().get(word="red")
            post = Post.objects.select_for_update().get(title="post 9")
            post.seen += 1
            post.save()
        connection.close()

    before = Post.objects.get(title="post 9").seen
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one_more, range(20)))
    same(Post.objects.get(title="post 9").seen, before + 20)


def applications():
    """Users, their sessions, the admin's pages, a cache, sites."""
    call_command("createcachetable")
    cache.set("key", {"value": 1})
    cache.incr("key2", 1) if cache.add("key2", 1) else None
    same((cache.get("key"), cache.get_many(["key2"])), ({"value": 1}, {"key2": 2}))
    User.objects.create_superuser("root", "root@example.com", "secret")
    browser = Client()
    assert browser.login(username="root", password="secret")
    for page in ("", "auth/user/", "auth/user/add/", "auth/user/?q=ro&is_staff__exact=1", "auth/group/add/", "sites/site/1/change/",
            "shop/post/", "shop/post/?q=author+00&printed__exact=1&p=0&o=2.-3", f"shop/post/{Post.objects.first().pk}/change/"):
        same((page, browser.get(f"/admin/{page}").status_code), (page, 200))
    new = {"username": "ann", "password1": "a long secret", "password2": "a long secret", "usable_password": "true", "_save": ""}
    same(browser.post("/admin/auth/user/add/", new).status_code, 302)
    ann = User.objects.get(username="ann")
    group = Group.objects.create(name="editors")
    group.permissions.set(Permission.objects.filter(content_type__app_label="shop"))
    ann.groups.add(group)
    assert ann.has_perm("shop.change_post") and not ann.has_perm("auth.add_user")
    same(browser.post("/admin/auth/user/", {"action": "delete_selected", "_selected_action": [ann.pk], "post": "yes"}).status_code, 302)
    same(User.objects.count(), 1)
    same(LogEntry.objects.count() >= 2, True)
    same(browser.get(f"/admin/auth/user/{User.objects.get().pk}/history/").status_code, 200)
    same(Session.objects.count(), 1)
    call_command("clearsessions")


def looked_at():
    said = io.StringIO()
    call_command("inspectdb", stdout=said)
    text = said.getvalue()
    compile(text, "inspectdb", "exec")
    for wanted in ["class ShopPost(models.Model):", "title = models.CharField(max_length=200)", "key = models.UUIDField()",
            "price = models.DecimalField(max_digits=12, decimal_places=3)", "weight = models.FloatField()",
            "author = models.ForeignKey(ShopAuthor, models.DO_NOTHING, blank=True, null=True)", "took = models.DurationField(",
            "seen = models.BigIntegerField(db_comment='by people')", "db_table_comment = 'what readers say'", "meta = models.JSONField()",
            "id = models.BigAutoField(primary_key=True)", "name = models.CharField(unique=True, max_length=40)",
            "unique_together = (('author', 'title'),)", "class DjangoSession(models.Model):", "raw = models.BinaryField("]:
        assert wanted in text, f"inspectdb does not say {wanted}:\n{text[text.index('class ShopAuthor'):]}"


def kept_and_emptied():
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        call_command("dumpdata", "shop", "sites", "auth.user", output=file.name)
        before = Post.objects.count()
        call_command("flush", interactive=False)
        same(Post.objects.count(), 0)
        call_command("loaddata", file.name, verbosity=0)
        same(Post.objects.count(), before)
        assert Author.objects.create(name="after all").pk > 100
    call_command("migrate", "shop", "zero", verbosity=0)


with tempfile.TemporaryDirectory() as folder:
    with psycopg.connect(autocommit=True) as session:
        session.execute("drop schema if exists django cascade")
        session.execute("create schema django")
    write(folder, FILES)
    migrations(folder)
    sys.path.insert(0, folder)
    os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
    django.setup()
    from django.contrib.admin.models import LogEntry
    from django.contrib.auth.models import Group, Permission, User
    from django.contrib.postgres.aggregates import ArrayAgg, StringAgg
    from django.contrib.sessions.models import Session
    from django.core.cache import cache
    from django.core.management import call_command
    from django.db import IntegrityError, connection, transaction
    from django.db.models import (Avg, Case, Count, Exists, F, Max, OuterRef, ProtectedError, Q, Subquery, Sum,
        Value, When, Window)
    from django.db.models.functions import Concat, ExtractHour, Length, Now, RowNumber, TruncMonth
    from django.test import Client
    from shop.models import Author, Comment, Post, Tag
    for part in (rows_of_all_kinds, many_rows, questions, writers, applications, looked_at, kept_and_emptied):
        try:
            part()
        except Exception as error:
            raise SystemExit(f"{part.__name__}, line {error.__traceback__.tb_next.tb_lineno}: {type(error).__name__}: {error}")
    connection.close()
    with psycopg.connect(autocommit=True) as session:
        session.execute("drop schema django cascade")
print(f"Django {django.__version__} over psycopg")
