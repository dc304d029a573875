// Hibernate: hbm2ddl create, update and validate, its default ids, associations, HQL, versions and pessimistic locks.

import jakarta.persistence.*;
import java.math.BigDecimal;
import java.time.*;
import java.util.*;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.ColumnDefault;
import org.hibernate.cfg.Configuration;

public class Main {
    @Entity(name = "Author") @Table(name = "hb_author") public static class Author {
        @Id @GeneratedValue Long id;
        @Column(length = 40, nullable = false, unique = true) String name;
        LocalDate born;
        @ManyToOne(fetch = FetchType.LAZY) Author editor;
        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("title") List<Post> posts = new ArrayList<>();
        protected Author() {}
        Author(String name) { this.name = name; }
        Post post(String title, int price) {
            Post post = new Post();
            post.author = this;
            post.title = title;
            post.price = BigDecimal.valueOf(price);
            posts.add(post);
            return post;
        }
    }

    @MappedSuperclass public static class Texts {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @Version int version;
        @Column(nullable = false) String title;
    }

    @Entity(name = "Post") @Table(name = "hb_post", indexes = @Index(name = "hb_post_by_price", columnList = "price, printed"),
        uniqueConstraints = @UniqueConstraint(name = "hb_post_once", columnNames = {"author_id", "title"})) public static class Post extends Texts {
        @ManyToOne(optional = false) Author author;
        @Column(precision = 12, scale = 2) BigDecimal price;
        Double weight = 0.5;
        boolean printed;
        UUID key = UUID.randomUUID();
        byte[] raw = {0, (byte) 255};
        Instant written = Instant.parse("2024-02-29T12:30:00.123456Z");
        LocalDateTime local = LocalDateTime.of(1999, 12, 31, 23, 59, 59);
        @Column(length = 100000) String body = "long";
        @ManyToMany @JoinTable(name = "hb_tagged") Set<Tag> tags = new HashSet<>();
        @ElementCollection @CollectionTable(name = "hb_note") @OrderColumn(name = "place") List<String> notes = new ArrayList<>();
    }

    @Entity(name = "Tag") @Table(name = "hb_tag") public static class Tag {
        @Id @Column(length = 9) String word;
        protected Tag() {}
        Tag(String word) { this.word = word; }
    }

    // The same table, later.
    @Entity(name = "TagLater") @Table(name = "hb_tag") public static class TagLater {
        @Id @Column(length = 9) String word;
        @ColumnDefault("7") int rank;
        @Column(unique = true) String spoken;
    }

    static SessionFactory open(String ddl, Class<?>... classes) {
        Configuration configuration = new Configuration()
            .setProperty("hibernate.connection.url", "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"))
            .setProperty("hibernate.connection.username", System.getenv("PGUSER"))
            .setProperty("hibernate.connection.pool_size", "4")
            .setProperty("hibernate.hbm2ddl.auto", ddl)
            .setProperty("hibernate.hbm2ddl.halt_on_error", "true")
            .setProperty("hibernate.jdbc.batch_size", "50")
            .setProperty("hibernate.order_inserts", "true");
        for (Class<?> one : classes) configuration.addAnnotatedClass(one);
        return configuration.buildSessionFactory();
    }

    static void same(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) throw new AssertionError("found " + found + " instead of " + wanted);
    }

    static <E extends Throwable> E fails(Class<E> kind, Runnable what) {
        try {
            what.run();
        } catch (Throwable error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) if (kind.isInstance(cause)) return kind.cast(cause);
            throw error;
        }
        throw new AssertionError("no " + kind.getSimpleName());
    }

    static void families(SessionFactory factory) {
        factory.inTransaction(db -> {
            List<Tag> tags = List.of(new Tag("red"), new Tag("green"));
            tags.forEach(db::persist);
            Author ann = new Author("Ann");
            ann.born = LocalDate.of(1980, 1, 31);
            ann.post("one", 1).tags.addAll(tags);
            ann.posts.get(0).notes.addAll(List.of("first", "second"));
            db.persist(ann);
            Author bob = new Author("Bob");
            bob.editor = ann;
            for (int n = 0; n < 200; n++) bob.post(String.format("post %03d", n), n).printed = n % 2 == 0;
            db.persist(bob);
        });
        factory.inTransaction(db -> {
            Post post = db.createQuery("from Post p join fetch p.author left join fetch p.tags where p.title = 'one'", Post.class).getSingleResult();
            same(post.author.born, LocalDate.of(1980, 1, 31));
            same(List.of(post.tags.size(), post.notes, post.weight, post.raw[1], post.written, post.local, post.body),
                List.of(2, List.of("first", "second"), 0.5, (byte) 255, Instant.parse("2024-02-29T12:30:00.123456Z"), LocalDateTime.of(1999, 12, 31, 23, 59, 59), "long"));
            Author bob = db.createQuery("from Author where name = :name", Author.class).setParameter("name", "Bob").getSingleResult();
            same(List.of(bob.editor.name, bob.posts.size(), bob.posts.get(3).title), List.of("Ann", 200, "post 003"));
            bob.posts.remove(0);
            post.tags.removeIf(tag -> tag.word.equals("red"));
            post.notes.add(0, "before");
        });
    }

    static void questions(SessionFactory factory) {
        factory.inTransaction(db -> {
            same(db.createQuery("select a.name, count(p), sum(p.price), max(p.written) from Author a join a.posts p group by a.name having count(p) > 5 order by a.name", Object[].class).getSingleResult()[1], 199L);
            same(db.createQuery("select p.title from Post p where p.author.name like 'B%' and p.price between 5 and 20 and p.printed order by p.price desc", String.class).setFirstResult(1).setMaxResults(3).getResultList(), List.of("post 018", "post 016", "post 014"));
            same(db.createQuery("select count(*) from Post p where exists (select 1 from p.tags t where t.word = 'green') or p.id in (select max(q.id) from Post q)", Long.class).getSingleResult(), 2L);
            same(db.createQuery("select p.title from Post p left join p.tags t left join p.notes n where size(p.notes) > 2 and n = 'before'", String.class).getResultList(), List.of("one"));
            same(db.createQuery("select upper(substring(p.title, 1, 4)), case when p.price > 100 then 'dear' else 'cheap' end from Post p where year(p.written) = 2024 and p.local < local datetime order by p.id limit 1", Object[].class).getSingleResult()[1], "cheap");
            same(db.createQuery("select t from (select p.title t, row_number() over (partition by p.printed order by p.price desc) r from Post p) where r = 1 order by t", String.class).getResultList(), List.of("post 198", "post 199"));
            same(db.createQuery("with big as (select p.price v from Post p where p.price > 195) select count(*) from big", Long.class).getSingleResult(), 4L);
            same(db.createNativeQuery("select count(*) from hb_post where title = ?1", Long.class).setParameter(1, "one").getSingleResult(), 1L);
            try (var rows = db.createQuery("from Post order by id", Post.class).setFetchSize(50).getResultStream()) { same(rows.count(), 200L); }
        });
    }

    static void writers(SessionFactory factory) {
        factory.inTransaction(db -> {
            same(db.createMutationQuery("update Post set price = price + 1 where printed").executeUpdate(), 99);
            same(db.createMutationQuery("update versioned Post set weight = 2 where title = 'one'").executeUpdate(), 1);
            same(db.createMutationQuery("insert into Tag (word) select distinct 'from ' || cast(p.weight as string) from Post p where p.title = 'one'").executeUpdate(), 1);
            same(db.createMutationQuery("insert into Tag (word) values ('red') on conflict (word) do nothing").executeUpdate(), 0);
            same(db.createMutationQuery("delete from Post p where p.price >= 199").executeUpdate(), 2);
        });
        long id = factory.fromTransaction(db -> db.createQuery("select id from Post where title = 'one'", Long.class).getSingleResult());
        factory.inTransaction(db -> {
            for (LockModeType mode : List.of(LockModeType.PESSIMISTIC_WRITE, LockModeType.PESSIMISTIC_READ, LockModeType.PESSIMISTIC_FORCE_INCREMENT)) db.find(Post.class, id, mode);
            db.createQuery("from Post p join fetch p.author a where a.name = 'Ann'", Post.class).setLockMode(LockModeType.PESSIMISTIC_WRITE).getResultList();
            same(db.createQuery("from Post where printed order by id", Post.class).setLockMode(LockModeType.PESSIMISTIC_WRITE).setHint("jakarta.persistence.lock.timeout", -2).setMaxResults(3).getResultList().size(), 3);
            factory.inTransaction(other -> {
                fails(PessimisticLockException.class, () -> other.find(Post.class, id, LockModeType.PESSIMISTIC_WRITE, Map.of("jakarta.persistence.lock.timeout", 0)));
            });
        });
        Session one = factory.openSession(), two = factory.openSession();
        one.beginTransaction(); two.beginTransaction();
        one.find(Post.class, id).title = "mine";
        two.find(Post.class, id).title = "yours";
        one.getTransaction().commit();
        fails(OptimisticLockException.class, () -> two.getTransaction().commit());
        one.close(); two.close();
        fails(org.hibernate.exception.ConstraintViolationException.class, () -> factory.inTransaction(db -> db.persist(new Author("Ann"))));
        factory.inTransaction(db -> db.remove(db.createQuery("from Author where name = 'Bob'", Author.class).getSingleResult()));
        same(factory.fromTransaction(db -> db.createQuery("select count(*) from Post", Long.class).getSingleResult()), 1L);
    }

    public static void main(String[] args) {
        java.util.logging.Logger.getLogger("org.hibernate").setLevel(java.util.logging.Level.SEVERE);
        java.util.logging.Logger.getLogger("org.hibernate.orm.jdbc.error").setLevel(java.util.logging.Level.OFF);
        Class<?>[] classes = {Author.class, Post.class, Tag.class};
        open("create", classes).close();
        open("validate", classes).close();
        open("update", classes).close();
        open("update", TagLater.class).close();
        open("validate", TagLater.class).close();
        try (SessionFactory factory = open("update", classes)) {
            families(factory);
            questions(factory);
            writers(factory);
        }
        open("create-drop", classes).close();
        System.out.println("Hibernate " + org.hibernate.Version.getVersionString());
    }
}
